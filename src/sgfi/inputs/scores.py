"""A model followed by one number: a loss, or any score of its output, as a feature that can be asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.errors import CaptureError


class Scored(nn.Module):
    """From inputs to ``(B, 1)``, a score of what the model returns. Its name in the graph is ``logits``.

    Tensors of the model answer to their own names as before, without ``model.`` in front.
    """

    def __init__(self, model: nn.Module, score: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.model, self._score = model, score
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        score = self._score(self.model(x))
        if score.dim() != 1:
            raise CaptureError("a score that gives one number for each input", str(tuple(score.shape)), "Reduce it.")
        return score.unsqueeze(1)


def cross_entropy(model: nn.Module, label: int) -> Scored:
    """The cross-entropy loss of a classifier for one class: what of the input does it rest on?"""
    return Scored(model, lambda logits: F.log_softmax(logits, 1)[:, label].neg())

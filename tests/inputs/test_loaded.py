"""What a loaded model says of its inputs."""

from __future__ import annotations

import torch
from torch import nn

from sgfi.inputs.loaded import LoadedModel


class Scaled(nn.Embedding):
    """As Gemma's: what the model is fed is the table times a number."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * 8


def test_a_vocabulary_is_what_the_model_is_fed() -> None:
    for embed, factor in ((nn.Embedding(7, 3), 1), (Scaled(7, 3), 8)):
        loaded = LoadedModel("hf:tiny", nn.Identity(), input_shape=(4, 3), embed=embed)
        torch.testing.assert_close(loaded.vocabulary, factor * embed.weight.detach())
        assert loaded.vocabulary is not None and not loaded.vocabulary.requires_grad
    assert LoadedModel("torchvision:resnet18", nn.Identity(), input_shape=(3, 8, 8)).vocabulary is None

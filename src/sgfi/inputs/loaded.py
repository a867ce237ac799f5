"""A model with what is needed to feed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sgfi.errors import DataError
from sgfi.inputs.preprocessing import Preprocessing

Provenance = dict[str, Any]
LARGEST_INPUT = 1 << 26
"""Numbers of one input: 256 MiB, and a model's activations take many times as much."""


@dataclass(frozen=True)
class LoadedModel:
    """A frozen model in evaluation mode with what is needed to feed it."""

    spec: str
    model: nn.Module
    preprocessing: Preprocessing | None = None
    """None for models that do not take images."""
    input_shape: tuple[int, ...] = ()
    """Shape of one input, no batch axis."""
    weights: str = "pretrained"
    strict: bool = True
    tokenizer: Any = None
    embed: Callable[[torch.Tensor], torch.Tensor] | None = field(default=None, repr=False)
    """Token ids (B, L) -> embeddings (B, L, D), for text models."""

    def __post_init__(self) -> None:
        sizes = self.input_shape
        whole = isinstance(sizes, tuple) and all(isinstance(size, int) and size > 0 for size in sizes)
        if not whole or len(sizes) > 8 or prod(sizes) > LARGEST_INPUT:
            raise DataError(
                f"an input shape of positive whole numbers whose product is at most {LARGEST_INPUT}",
                f"{sizes!r} of {self.spec}",
                "Correct INPUT_SHAPE in the model's file, or choose a smaller --size.",
            )

    @property
    def example(self) -> torch.Tensor:
        """(2, *input_shape): any finite input will do for capture; batch 2, so that no axis of length one is baked
        in."""
        generator = torch.Generator().manual_seed(0)
        dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)
        return torch.randn(2, *self.input_shape, generator=generator).to(dtype)

    @property
    def vocabulary(self) -> Tensor | None:
        """(V, D) every token's embedding as the model is fed it, which some models scale; None for other models."""
        weight = getattr(self.embed, "weight", None)
        if self.embed is None or weight is None or type(self.embed) is nn.Embedding:
            return None if weight is None else weight.detach()
        with torch.no_grad():
            return self.embed(torch.arange(len(weight), device=weight.device).unsqueeze(0))[0].detach()

    @property
    def provenance(self) -> Provenance:
        """What a manifest needs to build this model again."""
        record: Provenance = {"spec": self.spec, "weights": self.weights, "strict": self.strict}
        record["input_shape"] = list(self.input_shape)
        if self.preprocessing is not None:
            record["preprocessing"] = self.preprocessing.as_dict()
        return record

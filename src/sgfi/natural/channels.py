"""The prior of tokens and of plain vectors: one channel covariance at every position, none between positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from sgfi.errors import DataError, whole
from sgfi.inversion import along_channels
from sgfi.natural.covariance import Prior, scalar
from sgfi.natural.moments import Moments, floor


@dataclass(frozen=True, eq=False, repr=False)
class ChannelPrior(Prior):
    """Block diagonal over positions: what one position says never reaches another, so causality is exact."""

    centre: Tensor
    """(D,) the mean at every position; its dtype is that of the inputs."""
    covariance: Tensor
    """(D, D) float64"""
    shape: tuple[int, ...]
    """(D,), or with coordinates such as (L, D)."""
    channel_axis: int
    of_tokens: bool = False
    _tables: dict = field(repr=False, default_factory=dict)
    independent_positions = True

    @cached_property
    def mean(self) -> Tensor:  # type: ignore[override]
        return self._spread(self.centre)

    @cached_property
    def variance(self) -> Tensor:  # type: ignore[override]
        return self._spread(self.covariance.diagonal())

    @cached_property
    def root_covariance(self) -> Tensor:
        """(D, D) float64: the symmetric root."""
        values, vectors = torch.linalg.eigh(self.covariance)
        return (vectors * values.clamp(min=0).sqrt()) @ vectors.mT

    @cached_property
    def inverse_root(self) -> Tensor:
        """(D, D) float64: the inverse of :attr:`root_covariance`."""
        return torch.linalg.inv(self.root_covariance)

    def apply(self, tensor: Tensor) -> Tensor:
        return self._multiplied(tensor, "covariance")

    def root(self, tensor: Tensor) -> Tensor:
        return self._multiplied(tensor, "root_covariance")

    def whiten(self, tensor: Tensor) -> Tensor:
        return self._multiplied(tensor, "inverse_root")

    def resized(self, shape: tuple[int, ...]) -> ChannelPrior:
        shape = tuple(shape)
        if len(shape) != len(self.shape) or shape[self.channel_axis - 1] != len(self.centre) or min(shape) < 1:
            raise DataError(
                f"a shape like {self.shape}, with {len(self.centre)} channels", str(shape), "Only positions may change."
            )
        return replace(self, shape=shape)

    def mapped(self, matrix: Tensor, offset: Tensor) -> ChannelPrior:
        matrix = matrix.to(torch.float64)
        shape = list(self.shape)
        shape[self.channel_axis - 1] = len(matrix)
        centre = (matrix @ self.centre.to(torch.float64) + offset.to(torch.float64)).to(self.centre.dtype)
        covariance = matrix @ self.covariance @ matrix.mT
        return replace(self, centre=centre, covariance=covariance, shape=tuple(shape), _tables={})

    def tensors(self) -> dict[str, Tensor]:
        return {
            "centre": self.centre,
            "covariance": self.covariance,
            "shape": torch.tensor(self.shape),
            "channel_axis": torch.tensor(self.channel_axis),
            "of_tokens": torch.tensor(int(self.of_tokens)),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> ChannelPrior:
        shape = tuple(tensors["shape"].tolist())
        tokens = "of_tokens" in tensors and bool(scalar(tensors, "of_tokens"))
        return cls(tensors["centre"], tensors["covariance"], shape, scalar(tensors, "channel_axis"), tokens)

    @classmethod
    def fitted(
        cls, moments: Moments, shift: Tensor, shape: tuple[int, ...], channel_axis: int, dtype: torch.dtype
    ) -> ChannelPrior:
        """From one group of moments about ``shift``, shrunk."""
        covariance, centre = moments.centred().shrunk()[0], moments.mean[0] + shift
        return cls(centre.to(dtype), _definite(covariance, centre, dtype), tuple(shape), channel_axis)

    def _spread(self, numbers: Tensor) -> Tensor:
        """(D,) at every position."""
        return along_channels(numbers, self.channel_axis, 1 + len(self.shape))[0].expand(self.shape)

    def _multiplied(self, tensor: Tensor, name: str) -> Tensor:
        self._check_shape(tensor)
        key = name, tensor.dtype, tensor.device
        if key not in self._tables:
            with torch.inference_mode(False):  # kept for callers in any mode
                self._tables[key] = getattr(self, name).to(device=tensor.device, dtype=tensor.dtype, copy=True)
        channel = self.channel_axis - 1 - len(self.shape)
        return torch.movedim(torch.movedim(tensor, channel, -1) @ self._tables[key], -1, channel)


def embedding_prior(table: Tensor, length: int, counts: Tensor | None = None) -> ChannelPrior:
    """Of token embeddings ``(length, D)``: mean and covariance of the rows of ``table`` (V, D).

    ``counts`` (V,) says how often each token occurs in a corpus; without it every token counts alike.
    """
    dense = isinstance(table, Tensor) and table.layout == torch.strided and table.is_floating_point()
    if not dense or table.dim() != 2 or len(table) < 2:
        got = f"{table.layout} {tuple(table.shape)}" if isinstance(table, Tensor) else type(table).__name__
        todo = "Pass the embedding of every token: lm.get_input_embeddings().weight, or as the model is fed it."
        raise DataError("an embedding table (tokens, width)", got, todo)
    try:
        weights = torch.ones(len(table)) if counts is None else torch.as_tensor(counts).to_dense()
        weights = weights.to(torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{len(table)} counts", type(counts).__name__, "Give one number per token.") from error
    if weights.shape != (len(table),) or not torch.isfinite(weights).all() or (weights < 0).any():
        raise DataError(f"{len(table)} counts, none negative", str(tuple(weights.shape)), "Give one per token.")
    if not whole(length):
        raise DataError("a whole number of positions", repr(length), "Give the length of a text in tokens.")
    if (weights > 0).sum() < 2 or length < 1:
        raise DataError("at least two tokens that occur and one position", "fewer", "Count a larger corpus.")
    rows = table.detach().cpu().to(torch.float64)
    weights = weights.cpu() / weights.sum()
    centre = weights @ rows
    deviations = rows - centre
    covariance = (deviations * weights.unsqueeze(1)).mT @ deviations
    covariance = _definite(covariance, centre, table.dtype)
    return ChannelPrior(centre.to(table.dtype), covariance, (length, rows.shape[1]), 2, of_tokens=True)


def _definite(covariance: Tensor, centre: Tensor, dtype: torch.dtype) -> Tensor:
    return (covariance + covariance.mT) / 2 + floor(covariance.diagonal(), centre, dtype)

"""What every input prior can do: a mean and a covariance that is applied, never written out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from sgfi.errors import QueryError

DENSE_UP_TO = 4096
"""Numbers in one input up to which the covariance is written out as a matrix."""


class Prior(ABC):
    """How inputs of one shape vary: a mean mu and a covariance S.

    Tensors that it acts on have the input's axes last and any leading axes, and keep their dtype and device.
    Laws: S is symmetric and positive definite; ``root(root(t)) = apply(t)``; ``whiten(root(t)) = t``;
    ``dense()`` is S written out.
    """

    shape: tuple[int, ...]
    """Of one input, without the batch."""
    channel_axis: int
    """Where the channels stand, counted with the batch as axis 0."""

    independent_positions = False
    """Whether S has nothing between positions, so that what one says never reaches another."""
    of_tokens = False
    """Whether inputs are embeddings of tokens, of which the mean is none."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of inputs {tuple(self.shape)}, channel axis {self.channel_axis}>"

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """(*shape) mu."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """(*shape) the diagonal of S, float64."""

    @abstractmethod
    def apply(self, tensor: Tensor) -> Tensor:
        """``S t``."""

    @abstractmethod
    def root(self, tensor: Tensor) -> Tensor:
        """``S^(1/2) t``, the symmetric root."""

    @abstractmethod
    def whiten(self, tensor: Tensor) -> Tensor:
        """``S^(-1/2) t``, the inverse of :meth:`root`."""

    def energy(self, tensor: Tensor) -> Tensor:
        """``t* S^-1 t`` over the input's axes: small for changes that inputs often make."""
        axes = tuple(range(-len(self.shape), 0))
        return self.whiten(tensor).square().sum(axes)

    @abstractmethod
    def resized(self, shape: tuple[int, ...]) -> Prior:
        """The same statistics for inputs with other coordinate sizes."""

    @abstractmethod
    def mapped(self, matrix: Tensor, offset: Tensor) -> Prior:
        """Of ``matrix @ x + offset`` over channels: ``matrix`` (C', C), ``offset`` (C')."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to build it again, for safetensors; see ``from_tensors``."""

    def __call__(self, tensor: Tensor) -> Tensor:
        return self.apply(tensor)

    def detail(self, tensor: Tensor) -> Tensor:
        """What varies inside one input: where inputs have a common level, their average over positions taken off."""
        return tensor

    @property
    def detail_variance(self) -> Tensor:
        """(*shape) the variance of :meth:`detail`, float64."""
        return self.variance

    def mean_like(self, x: Tensor) -> Tensor:
        """mu in the dtype and on the device of ``x``."""
        return self.mean.to(device=x.device, dtype=x.dtype)

    def draw(self, count: int, like: Tensor, seed: int = 0) -> Tensor:
        """(count, *shape) deviations from the mean, N(0, S); a seed gives the same ones in any dtype."""
        generator = torch.Generator().manual_seed(seed)
        white = torch.randn(count, *self.shape, generator=generator, dtype=torch.float64)
        return self.root(white.to(device=like.device, dtype=like.dtype))

    def dense(self) -> Tensor:
        """(N, N) float64: S as a matrix over the flattened input; only for small inputs."""
        size = prod(self.shape)
        if size > DENSE_UP_TO:
            raise QueryError(
                f"an input of at most {DENSE_UP_TO} numbers", str(size), "Use prior.apply, which needs no matrix."
            )
        unit = torch.eye(size, dtype=torch.float64)
        rows = self.apply(unit.reshape(size, *self.shape)).reshape(size, size)
        return (rows + rows.mT) / 2

    def over_channels(self, tensor: Tensor) -> Tensor:
        """Summed over the channel axis of an input-shaped tensor with leading axes."""
        return tensor.sum(self.channel_axis - 1 - len(self.shape))

    def _check_shape(self, tensor: Tensor) -> None:
        if tuple(tensor.shape[tensor.dim() - len(self.shape) :]) != self.shape:
            raise QueryError(
                f"a tensor whose last axes are the input's {self.shape}",
                str(tuple(tensor.shape)),
                "Fit a prior on inputs of this shape, or use prior.resized(shape).",
            )


def scalar(tensors: Mapping[str, Tensor], name: str) -> int:
    """An integer that was stored as a tensor."""
    return int(tensors[name])

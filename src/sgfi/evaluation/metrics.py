"""How well an inverse aligns with the input it came from.

These numbers describe alignment with a known input. They are not the definition of a correct inverse: a single channel
need not look like the whole photograph.

Every metric takes inverses and inputs (B, ...) in the model's input coordinates and returns (B,). The paper does not
say how it splits a picture into low, high and colour parts; here luminance is 0.299 R + 0.587 G + 0.114 B, "low" is its
orthogonal projection onto waves longer than 16 pixels, "high" the rest, and chroma is what luminance leaves of R and B.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sgfi.errors import DataError
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.weights import read_state
from sgfi.optional import need

Metric = Callable[[Tensor, Tensor], Tensor]
LUMA = (0.299, 0.587, 0.114)
CUTOFF = 1 / 16
"""Cycles per pixel up to which luminance counts as low."""


def pixel_cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of the flattened tensors: (B, ...), (B, ...) -> (B,).

    A tensor that is exactly zero has no direction: its cosine is reported as 0.
    """
    a, b = _flat(first, second)
    norms = a.norm(dim=1) * b.norm(dim=1)
    return torch.where(norms > 0, (a * b).sum(1) / norms.clamp_min(torch.finfo(a.dtype).tiny), 0.0)


def centred_cosine(inverse: Tensor, x: Tensor) -> Tensor:
    """Cosine after each image's own mean is taken away (Pearson correlation), so brightness does not count: (B,)."""
    a, b = _flat(inverse, x)
    return pixel_cosine(a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True))


def relative_error(estimate: Tensor, truth: Tensor) -> Tensor:
    """Length of the difference over length of the truth: (B,)."""
    a, b = _flat(estimate, truth)
    return (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(torch.finfo(a.dtype).tiny)


METRICS = {"pixel_cosine": pixel_cosine, "centred_cosine": centred_cosine, "relative_error": relative_error}
"""Metrics that fit inputs of every kind."""


def luminance(x: Tensor) -> Tensor:
    """(B, 1 or 3, H, W) -> (B, 1, H, W)."""
    if x.shape[1] == 1:
        return x
    return (x * x.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


def low_pass(x: Tensor, cutoff: float = CUTOFF) -> Tensor:
    """The part of (B, C, H, W) at waves of at most ``cutoff`` cycles per pixel: an orthogonal projection."""
    height, width = x.shape[-2:]
    rows, columns = torch.fft.fftfreq(height).view(-1, 1), torch.fft.rfftfreq(width).view(1, -1)
    keep = (rows.square() + columns.square() <= cutoff**2).to(x.device)
    return torch.fft.irfft2(torch.fft.rfft2(x.double()) * keep, s=(height, width))


def low_cosine(inverse: Tensor, x: Tensor) -> Tensor:
    """Pixel cosine of low-pass luminance: (B,)."""
    return pixel_cosine(low_pass(luminance(inverse)), low_pass(luminance(x)))


def high_cosine(inverse: Tensor, x: Tensor) -> Tensor:
    """Pixel cosine of high-pass luminance: (B,)."""
    return pixel_cosine(*(y - low_pass(y) for y in (luminance(inverse), luminance(x))))


def chroma_cosine(inverse: Tensor, x: Tensor) -> Tensor:
    """Pixel cosine of the two colour differences (R - Y, B - Y): (B,)."""
    return pixel_cosine(*(rgb[:, ::2] - luminance(rgb) for rgb in (inverse, x)))


def ssim(inverse: Tensor, x: Tensor) -> Tensor:
    """Structural similarity of pictures with values in 0..1: (B,)."""
    measure = need("torchmetrics.functional.image", "evaluation").structural_similarity_index_measure
    return measure(inverse.float(), x.float(), data_range=1.0, reduction="none").reshape(-1)


@cache
def lpips(trunk: str | Path) -> Metric:
    """The learned perceptual distance of pictures with values in 0..1, with its SqueezeNet trunk read from a file.

    The heads come with the lpips package; the trunk is torchvision's squeezenet1_1, whose weights the caller has.
    """
    with warnings.catch_warnings():  # the library calls torchvision by an old name
        warnings.simplefilter("ignore")
        network = need("lpips", "evaluation").LPIPS(net="squeeze", pnet_rand=True, verbose=False).eval()
    own = network.net.state_dict()  # slice2.3.squeeze.weight, ...: torchvision's features.3.squeeze.weight
    given = read_state(Path(trunk))
    wanted = {name: f"features.{name.split('.', 1)[1]}" for name in own}
    missing = [name for name in wanted.values() if name not in given]
    if missing:
        raise DataError(
            "the weights of squeezenet1_1", f"{Path(trunk).name} without {missing[0]}", "Give torchvision's file."
        )
    network.net.load_state_dict({name: given[old].to(own[name].dtype) for name, old in wanted.items()})

    @torch.no_grad()
    def measure(inverse: Tensor, x: Tensor) -> Tensor:
        return network(inverse.float(), x.float(), normalize=True).reshape(-1)

    return measure


def displayed(metric: Metric, preprocessing: Preprocessing) -> Metric:
    """A metric of pictures in 0..1, for tensors in the model's coordinates."""

    def measure(inverse: Tensor, x: Tensor) -> Tensor:
        return metric(*(preprocessing.denormalise(picture).clamp(0, 1) for picture in (inverse, x)))

    return measure


def alignment_metrics(preprocessing: Preprocessing | None, trunk: str | Path | None = None) -> dict[str, Metric]:
    """Every metric that fits the model's inputs, by name; LPIPS where its trunk is given."""
    metrics: dict[str, Metric] = {"pixel_cosine": pixel_cosine, "relative_error": relative_error}
    if preprocessing is None:
        return metrics
    metrics |= {"low_cosine": low_cosine, "high_cosine": high_cosine}
    if len(preprocessing.mean) == 3:
        metrics["chroma_cosine"] = chroma_cosine
    metrics["ssim"] = displayed(ssim, preprocessing)
    if trunk is not None:
        metrics["lpips"] = displayed(lpips(trunk), preprocessing)
    return metrics


def nmse(estimate: Tensor, truth: Tensor) -> Tensor:
    """Squared length of the difference over that of the truth: (B,). A truth of zero estimated exactly gives 0."""
    a, b = _flat(estimate, truth)
    missed, size = (a - b).square().sum(1), b.square().sum(1)
    return torch.where(missed > 0, missed / size.clamp_min(torch.finfo(a.dtype).tiny), 0.0)


def _flat(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Both as float64 (B, everything)."""
    if first.shape != second.shape:
        raise DataError("two tensors of one shape", f"{tuple(first.shape)} and {tuple(second.shape)}", "Pair them up.")
    return first.flatten(1).double(), second.flatten(1).double()

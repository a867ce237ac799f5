"""Ops whose derivatives are audited: a name, the shape of what they read (batch first) and the op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Op = Callable[[Tensor], Tensor]
TOKENS, MAP, VOLUME, VECTOR, SQUARE = (2, 5, 6), (2, 4, 6, 6), (2, 2, 4, 4, 4), (2, 6), (2, 4, 4)


def fixed(*shape: int) -> Tensor:
    """Irregular numbers between -1 and 1, the same every time."""
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float64).square().mul(0.71).sin().reshape(shape)


def unit(x: Tensor) -> Tensor:
    """Into (-1, 1)."""
    return 0.9 * torch.tanh(x)


def positive(x: Tensor) -> Tensor:
    return x.exp() + 0.1


def definite(x: Tensor) -> Tensor:
    """(B, n, n) symmetric positive definite."""
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def _named(names: str, of: Callable[[Tensor], Tensor], library: object = torch) -> dict[str, Op]:
    def applied(function: Op) -> Op:
        return lambda x: function(of(x))

    return {name: applied(getattr(library, name)) for name in names.split()}


def _along(names: str, dim: int, first: bool = False) -> dict[str, Op]:
    """Reductions over one axis; ``first`` of the results of those with several."""

    def applied(function: Callable[..., Any]) -> Op:
        return (lambda x: function(x, dim)[0]) if first else (lambda x: function(x, dim))

    return {name: applied(getattr(torch, name)) for name in names.split()}


POINTWISE: dict[str, Op] = {
    **_named("abs atan asinh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac neg rad2deg round", lambda x: x),
    **_named("sigmoid sign sin sinc sinh square tan tanh trunc nan_to_num positive clone", lambda x: x),
    **_named("acos asin atanh erfinv", unit),
    **_named("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma i0", positive),
    **_named(
        "relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardsigmoid", lambda x: x, F
    ),
    **_named("hardswish leaky_relu logsigmoid hardshrink softshrink rrelu glu", lambda x: x, F),
    **_named("i0e i1 ndtr bessel_j0 log_ndtr entr", positive, torch.special),
    "acosh": lambda x: torch.acosh(1 + positive(x)),
    "logit": lambda x: torch.logit(0.5 + 0.4 * unit(x)),
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "clamp by tensors": lambda x: torch.clamp(x, fixed(6) - 1, x.mean(-1, keepdim=True)),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "pow": lambda x: x.pow(3),
    "pow of a number": lambda x: 2.0**x,
    "pow by tensors": lambda x: positive(x) ** x,
    "float_power": lambda x: torch.float_power(positive(x), 1.5),
    "polygamma": lambda x: torch.polygamma(1, positive(x)),
    "cast and back": lambda x: x.to(torch.float64).double(),
}

BINARY: dict[str, Op] = {
    "add": lambda x: torch.add(x, x[:, :1], alpha=2),
    "sub": lambda x: fixed(5, 6) - x * x,
    "rsub": lambda x: torch.rsub(x, fixed(6), alpha=2),
    "mul": lambda x: x * x[..., :1],
    "div": lambda x: x / (1 + x.square().mean(-1, keepdim=True)),
    "div, floored": lambda x: x + torch.div(x, 0.3, rounding_mode="floor"),
    "atan2": lambda x: torch.atan2(x, 2 + x.flip(1)),
    "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "minimum": lambda x: torch.minimum(x, fixed(5, 6)),
    "fmax": lambda x: torch.fmax(x, fixed(6)),
    "fmod": lambda x: torch.fmod(x, 0.7),
    "remainder": lambda x: torch.remainder(x, 0.7),
    "hypot": lambda x: torch.hypot(x, fixed(5, 6)),
    "lerp": lambda x: torch.lerp(x, x.flip(-1), 0.3),
    "lerp by tensors": lambda x: torch.lerp(x, fixed(5, 6), x.sigmoid()),
    "addcmul": lambda x: torch.addcmul(x, x, x.sin(), value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x.sin(), positive(x), value=0.5),
    "logaddexp": lambda x: torch.logaddexp(x, x.flip(1)),
    "copysign": lambda x: torch.copysign(x, fixed(5, 6)),
    "xlogy": lambda x: torch.xlogy(x, positive(x)),
    "where": lambda x: torch.where(x > 0, x.sin(), 2 * x),
    "cosine_similarity": lambda x: F.cosine_similarity(x, fixed(5, 6).expand_as(x), dim=-1),
    "pairwise_distance": lambda x: F.pairwise_distance(x, fixed(5, 6).expand_as(x)),
    "mse_loss": lambda x: F.mse_loss(x, x.sin(), reduction="none"),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, fixed(5, 6).expand_as(x), reduction="none"),
    "huber_loss": lambda x: F.huber_loss(x, fixed(5, 6).expand_as(x), reduction="none"),
    "kl_div": lambda x: F.kl_div(x.log_softmax(-1), x.flip(1).softmax(-1), reduction="none"),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(
        x, x.flip(1).sigmoid(), reduction="none"
    ),
    "cross_entropy": lambda x: F.cross_entropy(x.mT, x.flip(1).softmax(-1).mT, reduction="none"),
}

REDUCTIONS: dict[str, Op] = {
    **_along("sum mean prod logsumexp amax amin", 1),
    **_along("std var cumsum cumprod logcumsumexp", -1),
    **_along("max min median cummax", 1, first=True),
    "sum of all but the batch": lambda x: x.sum((1, 2)),
    "mean, kept": lambda x: x - x.mean((1, 2), keepdim=True),
    "var, biased": lambda x: x.var(-1, unbiased=False),
    "std_mean": lambda x: torch.std_mean(x, -1)[0] * torch.std_mean(x, -1)[1],
    "aminmax": lambda x: torch.aminmax(x, dim=-1)[1],
    "kthvalue": lambda x: x.kthvalue(3, -1).values,
    "quantile": lambda x: x.quantile(0.3, -1),
    "nansum": lambda x: x.nansum(-1),
    "nanmean": lambda x: x.nanmean(-1),
    "norm": lambda x: x.norm(dim=-1),
    "norm, p=1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "norm, p=3": lambda x: torch.linalg.vector_norm(x, 3, -1),
    "norm, largest": lambda x: torch.linalg.vector_norm(x, torch.inf, -1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmin": lambda x: F.softmin(x, -1),
    "sort": lambda x: x.sort(-1).values,
    "topk": lambda x: x.topk(3, -1).values,
    "argsort and gather": lambda x: x.gather(-1, x.flip(1).argsort(-1)),
    "diff": lambda x: x.diff(dim=1),
    "trapezoid": lambda x: torch.trapezoid(x, dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
}

SHAPES: dict[str, Op] = {
    "view": lambda x: x.view(x.shape[0], 3, 10),
    "reshape": lambda x: x.mT.reshape(x.shape[0], -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(-1, (3, 2)),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(2) * fixed(3, 1),
    "expand": lambda x: x[:, :1].expand(-1, 4, -1),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "tile": lambda x: x.tile(2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "permute": lambda x: x.permute(0, 2, 1),
    "movedim": lambda x: x.movedim(1, -1),
    "swapaxes": lambda x: x.swapaxes(1, 2),
    "roll": lambda x: x.roll((1, -2), (1, 2)),
    "flip": lambda x: x.flip((1, 2)),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
    "cat": lambda x: torch.cat([x, x.sin(), fixed(1, 1, 6).expand(x.shape[0], -1, -1)], 1),
    "stack": lambda x: torch.stack([x, x.cos()], 2),
    "split": lambda x: x.split([2, 3], 1)[1],
    "chunk": lambda x: x.chunk(3, -1)[0] * x.chunk(3, -1)[2],
    "unbind": lambda x: x.unbind(1)[0] - x.unbind(1)[3],
    "tensor_split": lambda x: x.tensor_split(2, 1)[1],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "slice": lambda x: x[:, 1:5:2, -3:],
    "select": lambda x: x[:, -1],
    "advanced index": lambda x: x[:, torch.tensor([3, 0, 3])],
    "boolean index": lambda x: x[:, torch.tensor([True, False, True, True, False])],
    "index_select": lambda x: x.index_select(1, torch.tensor([4, 4, 0])),
    "gather": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(1), 1),
    "masked_fill": lambda x: x.masked_fill(x > 0.3, -2.0),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diag_embed": lambda x: x.diag_embed(),
    "unfold of a tensor": lambda x: x.unfold(1, 3, 1),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, x.argmax(1, keepdim=True).expand_as(x), x),
    "scatter_reduce": lambda x: x.scatter_reduce(1, x.argsort(1), x.sin(), "sum"),
    "index_add": lambda x: x.index_add(1, torch.tensor([0, 2]), x[:, 3:]),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([0, 2]), x[:, 3:].sin()),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0, 2]), 1.0),
    "index_put": lambda x: x.index_put((torch.tensor([0]), torch.tensor([1])), x[0, 2]),
    "select_scatter": lambda x: x.select_scatter(x[:, 1].sin(), 1, 0),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :2].sin(), 1, 3, 5),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[:, :, 0].sin(), 0, 1, 2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=0.3),
    "pad, reflected": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "pad, replicated": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "pad, circular": lambda x: F.pad(x, (2, 1), mode="circular"),
    "fill": lambda x: torch.full_like(x, 2.0) * x,
}


def _assigned(x: Tensor) -> Tensor:
    x = x * 1
    x[:, 0] = 2 * x[:, 1]
    x[..., 3] = 0
    x[:, 2:4] += x[:, :2]
    return x


SHAPES["assignment to slices"] = _assigned

PRODUCTS: dict[str, Op] = {
    "linear": lambda x: F.linear(x, fixed(3, 6), fixed(3)),
    "matmul": lambda x: x @ x.mT,
    "matmul by a vector": lambda x: x @ fixed(6),
    "matmul, broadcast": lambda x: fixed(3, 1, 4, 5) @ x,
    "bmm": lambda x: torch.bmm(x, x.mT.sin()),
    "baddbmm": lambda x: torch.baddbmm(x[..., :5], x, x.mT, beta=0.5, alpha=2),
    "addmm": lambda x: torch.addmm(fixed(3), x.flatten(0, 1), fixed(6, 3)).unflatten(0, (x.shape[0], 5)),
    "einsum": lambda x: torch.einsum("bnd,bmd->bnm", x, x.sin()),
    "einsum with weights": lambda x: torch.einsum("bnd,hde->bhne", x, fixed(2, 6, 3)),
    "einsum, traced": lambda x: torch.einsum("bii->bi", x[..., :5]),
    "tensordot": lambda x: torch.tensordot(x, fixed(6, 3), ([2], [0])),
    "outer": lambda x: x[:, 0].unsqueeze(-1) * x[:, 1].unsqueeze(-2),
    "cross": lambda x: torch.linalg.cross(x[..., :3], x[..., 3:]),
    "inner": lambda x: torch.inner(x, fixed(3, 6)),
    "kron": lambda x: torch.kron(x, fixed(1, 2, 1)),
    "bilinear": lambda x: F.bilinear(x, x.sin(), fixed(3, 6, 6)),
    "cdist": lambda x: torch.cdist(x, fixed(3, 6).expand(x.shape[0], -1, -1)),
    "cdist, p=1": lambda x: torch.cdist(x, fixed(3, 6).expand(x.shape[0], -1, -1), p=1),
    "embedding of weights": lambda x: x @ F.embedding(torch.tensor([0, 2, 1]), fixed(4, 6)).T,
}

LINALG: dict[str, Op] = {
    "inv": lambda x: torch.linalg.inv(definite(x)),
    "solve": lambda x: torch.linalg.solve(definite(x), x[..., :2]),
    "cholesky": lambda x: torch.linalg.cholesky(definite(x)),
    "qr": lambda x: torch.linalg.qr(definite(x))[1],
    "det": lambda x: torch.linalg.det(definite(x)),
    "slogdet": lambda x: torch.linalg.slogdet(definite(x))[1],
    "svdvals": lambda x: torch.linalg.svdvals(x),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(definite(x)),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(0.3 * x),
    "matrix_power": lambda x: torch.linalg.matrix_power(x, 3),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(definite(x).tril(), x, upper=False),
    "pinv": lambda x: torch.linalg.pinv(x),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x),
    "trace": lambda x: x.diagonal(0, 1, 2).sum(-1),
}

FOURIER: dict[str, Op] = {
    "fft, real part": lambda x: torch.fft.fft(x).real,
    "fft, absolute": lambda x: torch.fft.fft(x, dim=1).abs(),
    "rfft and irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x) * (1 + 2j), n=6),
    "rfft2 and irfft2": lambda x: torch.fft.irfft2(
        torch.fft.rfft2(x) * torch.complex(fixed(5, 4), fixed(5, 4)), s=(5, 6)
    ),
    "fft of two axes": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    "fftn and ifftn": lambda x: torch.fft.ifftn(torch.fft.fftn(x, dim=(1, 2)) * 1j, dim=(1, 2)).imag,
    "hfft": lambda x: torch.fft.hfft(torch.complex(x, x.sin())),
    "fftshift": lambda x: torch.fft.fftshift(x, dim=1),
    "rotary embedding, complex": lambda x: torch.view_as_real(
        torch.view_as_complex(x.unflatten(-1, (3, 2))) * torch.polar(torch.ones(3).double(), torch.arange(3).double())
    ).flatten(-2),
    "complex product": lambda x: (torch.complex(x, x.cos()) * torch.complex(x.sin(), x)).imag,
    "complex matmul": lambda x: (torch.complex(x, x.cos()) @ torch.complex(fixed(6, 3), fixed(6, 3))).abs(),
    "complex angle": lambda x: torch.complex(2 + x.sin(), x).angle(),
    "complex conjugate": lambda x: (torch.complex(x, x.cos()).conj() * 2j).real,
    "complex exp": lambda x: torch.exp(torch.complex(x, x)).imag,
    "complex reshape": lambda x: torch.complex(x, x.cos()).mT.reshape(x.shape[0], 3, 10)[:, 1:].real,
    "complex softmax of absolute": lambda x: torch.complex(x, x.cos()).abs().softmax(-1),
    "stft": lambda x: torch.stft(
        x.flatten(1), 8, 4, window=torch.hann_window(8, dtype=x.dtype), return_complex=True
    ).abs(),
}


def heads(x: Tensor) -> Tensor:
    """(B, N, D) -> (B, 2, N, D / 2)."""
    return x.unflatten(-1, (2, 3)).transpose(1, 2)


def attention(x: Tensor, **options: object) -> Tensor:
    return F.scaled_dot_product_attention(heads(x), heads(x * x), heads(x.sin()), **options)  # type: ignore[arg-type]


ATTENTION: dict[str, Op] = {
    "attention": attention,
    "attention, causal": lambda x: attention(x, is_causal=True),
    "attention, masked": lambda x: attention(x, attn_mask=fixed(5, 5) > -0.8),
    "attention, bias": lambda x: attention(x, attn_mask=fixed(5, 5)),
    "attention, bias of the input": lambda x: attention(x, attn_mask=x[:, None, :, :5]),
    "attention, scale": lambda x: attention(x, scale=0.3),
    "attention, scale zero": lambda x: attention(x, scale=0.0),
    "attention, grouped": lambda x: F.scaled_dot_product_attention(
        heads(x), heads(x)[:, :1].sin(), heads(x)[:, :1], enable_gqa=True
    ),
}

IMAGES: dict[str, Op] = {
    "conv2d": lambda x: F.conv2d(x, fixed(6, 4, 3, 3), fixed(6), padding=1),
    "conv2d, strided": lambda x: F.conv2d(x, fixed(6, 4, 3, 3), stride=2, padding=1),
    "conv2d, grouped": lambda x: F.conv2d(x, fixed(6, 2, 3, 3), fixed(6), groups=2),
    "conv2d, depthwise": lambda x: F.conv2d(x, fixed(4, 1, 3, 3), padding=1, groups=4),
    "conv2d, dilated": lambda x: F.conv2d(x, fixed(3, 4, 2, 2), dilation=2),
    "conv2d, same": lambda x: F.conv2d(x, fixed(3, 4, 2, 3), padding="same"),
    "conv2d, patches": lambda x: F.conv2d(x, fixed(5, 4, 3, 2), stride=(3, 2)),
    "conv2d, single cells": lambda x: F.conv2d(x, fixed(5, 4, 1, 1), stride=2),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, fixed(4, 3, 3, 3), stride=2, padding=1, output_padding=1),
    "conv_transpose2d, grouped": lambda x: F.conv_transpose2d(x, fixed(4, 2, 2, 2), groups=2),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d, ceil": lambda x: F.max_pool2d(x, 4, 3, ceil_mode=True),
    "max_pool2d, indices": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d, uncounted": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (4, 1)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "lp_pool2d": lambda x: F.lp_pool2d(positive(x), 2, 2),
    "batch_norm": lambda x: F.batch_norm(x, fixed(4), positive(fixed(4)), fixed(4), fixed(4)),
    "group_norm": lambda x: F.group_norm(x, 2, fixed(4), fixed(4)),
    "instance_norm": lambda x: F.instance_norm(x, weight=fixed(4), bias=fixed(4)),
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 3),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "im2col": lambda x: F.unfold(x, 3, padding=1),
    "col2im": lambda x: F.fold(F.unfold(x, 2), (6, 6), 2),
    "interpolate, nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate, bilinear": lambda x: F.interpolate(x, size=(9, 4), mode="bilinear"),
    "interpolate, bilinear, antialiased": lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    "interpolate, bicubic": lambda x: F.interpolate(x, size=(9, 8), mode="bicubic", align_corners=True),
    "interpolate, area": lambda x: F.interpolate(x, size=(3, 3), mode="area"),
    "grid_sample": lambda x: F.grid_sample(x, warp(x), align_corners=False),
    "grid_sample, border": lambda x: F.grid_sample(x, warp(x), padding_mode="border", align_corners=True),
    "grid_sample, bicubic": lambda x: F.grid_sample(x, warp(x), mode="bicubic", align_corners=False),
    "affine_grid": lambda x: F.affine_grid(0.3 * x[:, 0, :2, :3], [x.shape[0], 1, 4, 4], align_corners=False),
    "gram matrix": lambda x: x.flatten(2) @ x.flatten(2).mT,
    "global response norm": lambda x: x * (g := x.norm(dim=(2, 3), keepdim=True)) / (g.mean(1, keepdim=True) + 1e-6),
    "squeeze and excite": lambda x: x * F.conv2d(x.mean((2, 3), keepdim=True), fixed(4, 4, 1, 1)).sigmoid(),
}


def warp(x: Tensor) -> Tensor:
    """A grid that depends on the image."""
    return (0.8 * x[:, :2, :4, :5].tanh()).permute(0, 2, 3, 1)


VOLUMES: dict[str, Op] = {
    "conv3d": lambda x: F.conv3d(x, fixed(3, 2, 2, 2, 2), fixed(3), padding=1),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x, fixed(2, 3, 2, 2, 2), stride=2),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, 2),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, 2),
    "interpolate, trilinear": lambda x: F.interpolate(x, size=(3, 5, 6), mode="trilinear"),
}

SEQUENCES: dict[str, Op] = {
    "conv1d": lambda x: F.conv1d(x, fixed(3, 5, 2), fixed(3), padding=1),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x, fixed(5, 3, 2), stride=2),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 3),
    "interpolate, linear": lambda x: F.interpolate(x, size=9, mode="linear"),
    "layer_norm": lambda x: F.layer_norm(x, (6,), fixed(6), fixed(6)),
    "layer_norm of two axes": lambda x: F.layer_norm(x, (5, 6)),
    "rms_norm": lambda x: F.rms_norm(x, (6,), fixed(6)),
}


def modules() -> dict[str, nn.Module]:
    """Layers with weights of their own, for TOKENS."""
    return {
        "LSTM": nn.LSTM(6, 4, num_layers=2, batch_first=True),
        "LSTM, both ways": nn.LSTM(6, 4, batch_first=True, bidirectional=True),
        "GRU": nn.GRU(6, 4, batch_first=True),
        "RNN": nn.RNN(6, 4, batch_first=True),
        "TransformerEncoderLayer": nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),
        "TransformerEncoderLayer, norm first": nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, norm_first=True),
        "weight norm": nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)),
        "spectral norm": nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)),
    }


OPS: dict[str, tuple[tuple[int, ...], Op]] = {
    name: (shape, op)
    for shape, ops in (
        *(
            (TOKENS, group)
            for group in (POINTWISE, BINARY, REDUCTIONS, SHAPES, PRODUCTS, FOURIER, ATTENTION, SEQUENCES)
        ),
        (SQUARE, LINALG),
        (MAP, IMAGES),
        (VOLUME, VOLUMES),
    )
    for name, op in ops.items()
}

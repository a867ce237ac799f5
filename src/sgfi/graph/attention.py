"""Attention written out, so that scores and weights are tensors of the graph.

``scaled_dot_product_attention`` is one op that returns what the heads put out; its weights ``(B, h, N, N)`` never show.
Opened, it is the same computation in steps: scores, mask, softmax, mean of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

FUSED = torch.ops.aten.scaled_dot_product_attention.default


def _written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """(..., h, L, d) and twice (..., h, S, d) -> (..., h, L, d); rows that are masked throughout give zero."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scores = torch.matmul(query, key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is None:
        return torch.matmul(torch.softmax(scores, -1), value)
    if attn_mask.dtype != torch.bool:
        return torch.matmul(torch.softmax(scores + attn_mask, -1), value)
    closed = attn_mask.logical_not()
    weights = torch.softmax(scores.masked_fill(closed, torch.finfo(scores.dtype).min), -1)
    return torch.matmul(weights.masked_fill(closed, 0.0), value)


OPENED: dict[Any, Callable[..., Any]] = {FUSED: _written_out}
"""For ``ExportedProgram.run_decompositions``."""


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Fused attention by the plain kernel: the others have neither forward-mode nor double-backward rules.

    Law: the very numbers of ``scaled_dot_product_attention`` inside ``sdpa_kernel(SDPBackend.MATH)``, which makes that
    choice for the whole process.
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = query.new_zeros(attn_mask.shape).masked_fill(~attn_mask, -torch.inf)
    plain = torch.ops.aten._scaled_dot_product_attention_math
    return plain(query, key, value, attn_mask, dropout_p, is_causal, **options)[0]


def kernel(target: Any) -> Callable[..., Any]:
    """What runs in place of an op of the graph.

    A view was traced for the strides of that moment; a kernel may lay out a batch of one sample otherwise.
    """
    if target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
        return torch.ops.aten.reshape.default
    return plain_attention if target is FUSED else target

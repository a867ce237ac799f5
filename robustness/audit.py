"""Derivatives audited: ops and models against ``torch.func`` and finite differences, in float64.

Every op and model is captured as a user would capture it. One that is refused with an ``SgfiError`` counts as refused;
of all others, values, VJP and JVP must agree with what PyTorch says about the module itself.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import sgfi
from robustness.audit_models import MODELS
from robustness.audit_ops import OPS, TOKENS, modules
from robustness.campaign import Effort, Row, Tally
from sgfi.derivatives import Linearisation
from sgfi.errors import SgfiError

TOLERANCE, QUOTIENT = 1e-6, 1e-4
"""Relative differences that rounding explains: to autograd, and to difference quotients (some models round inside)."""
STEPS = (1e-6, 1e-5, 1e-7, 1e-4, 1e-3, 1e-2)


class Applied(nn.Module):
    """A learnt layer, then the op."""

    def __init__(self, op: Callable[[Tensor], Tensor], features: int) -> None:
        super().__init__()
        self.start, self.op = nn.Linear(features, features), op

    def forward(self, x: Tensor) -> Tensor:
        out = self.op(self.start(x))
        return out[0] if isinstance(out, tuple) else out


def run(effort: Effort) -> list[Row]:
    """Two rows: ops and models. A share takes evenly spaced ones."""
    layers = {name: (TOKENS, layer) for name, layer in modules().items()}
    ops = spaced({**OPS, **layers}, effort)
    models = spaced(MODELS, effort)
    first, second = Tally("derivatives of ops", effort.seed), Tally("derivatives of models", effort.seed)
    refused = [
        audited(first, name, lambda op=op, shape=shape: (Applied(op, shape[-1]), shape))  # type: ignore[misc]
        for name, (shape, op) in ops.items()
    ]
    return [told(first, refused), told(second, [audited(second, name, make) for name, make in models.items()])]


def told(tally: Tally, refused: list[str]) -> Row:
    """The row, with what capture refused."""
    reasons = [reason for reason in refused if reason]
    if reasons:
        tally.worst = f"{tally.worst}; {len(reasons)} refused by name: {'; '.join(reasons)}"
    return tally.row()


def spaced(everything: dict, effort: Effort) -> dict:
    """Evenly spaced entries, as many as the effort says."""
    wanted = effort.count(len(everything))
    places = {round(index * (len(everything) - 1) / max(1, wanted - 1)) for index in range(wanted)}
    return {name: entry for place, (name, entry) in enumerate(everything.items()) if place in places}


def audited(tally: Tally, name: str, make: Callable[[], tuple[nn.Module, tuple[int, ...]]]) -> str:
    """One op or model; why it was refused, empty where it was not."""
    tally.tried()
    torch.manual_seed(tally.seed)
    try:
        model, shape = make()
        model = model.double().eval().requires_grad_(False)
        error, where = difference(model, torch.randn(shape, dtype=torch.float64))
    except SgfiError as refusal:
        return f"{name} ({refusal.got})"
    except Exception as error:
        tally.fail("traceback", f"{name}: {type(error).__name__}: {error}"[:300])
        return ""
    tally.measure(error, f"{where} of {name}: {error:.1g} of the tolerance")
    if not error <= 1:
        tally.fail("silent difference", f"{name}: {where} off by {error:.1e} times the tolerance")
    return ""


def difference(model: nn.Module, x: Tensor) -> tuple[float, str]:
    """The largest difference from PyTorch's own answers in units of what is allowed, and where it was found."""
    graph = sgfi.capture(model, x)
    nodes = [graph.exported.names.get(node, "") if node is not None else "" for node in graph.exported.outputs]
    end = next(name for name in nodes if name)
    index = nodes.index(end)
    local = Linearisation(graph, {"input": [end]}, x).at("input")
    tangent, cotangent = torch.randn_like(x), torch.randn_like(local.outputs[0])

    def call(x: Tensor) -> Tensor:
        return torch.utils._pytree.tree_leaves(model(x))[index]

    leaf = x.clone().requires_grad_()
    value = call(leaf)
    (back,) = torch.autograd.grad(value, leaf, cotangent, allow_unused=True, materialize_grads=True)
    pushed, pulled = local.jvp(tangent)[0], local.vjp([cotangent])
    found = {
        "value": distance(local.outputs[0], value.detach()) / TOLERANCE,
        "VJP": distance(pulled, back) / TOLERANCE,
    }
    quotients = [quotient(call, x, tangent, step) for step in STEPS]
    rounding = [1e-15 * value.detach().norm() / step for step in STEPS]
    off = [float((pushed - each).norm() - most) for each, most in zip(quotients, rounding, strict=True)]
    found["JVP"] = max(0.0, min(off)) / float(pushed.norm().clamp_min(1e-300)) / QUOTIENT
    own = [((each - pushed) * cotangent).sum().abs() for each in quotients]
    if found["VJP"] > 1 and min(own) < QUOTIENT * (pulled * tangent).norm():
        # The VJP has the JVP's adjoint and the JVP is the quotient: PyTorch's own backward is wrong. Its batch norm in
        # evaluation is, for a cotangent with other strides.
        del found["VJP"]
    ahead = forward_mode(call, x, tangent)
    if ahead is not None and min(distance(ahead, each) for each in quotients) < QUOTIENT:  # not where it is wrong
        found["JVP of torch.func"] = distance(pushed, ahead) / TOLERANCE
    size = (pushed * cotangent).norm().clamp_min(1e-300)
    found["adjoint"] = float(((pushed * cotangent).sum() - (tangent * pulled).sum()).abs() / size) / TOLERANCE
    where = max(found, key=lambda name: found[name])
    return found[where], where


@torch.no_grad()
def quotient(call: Callable[[Tensor], Tensor], x: Tensor, tangent: Tensor, step: float) -> Tensor:
    return (call(x + step * tangent) - call(x - step * tangent)) / (2 * step)


def forward_mode(call: Callable[[Tensor], Tensor], x: Tensor, tangent: Tensor) -> Tensor | None:
    """``torch.func.jvp``; ``None`` where PyTorch has none, or loses the tangent."""
    try:
        _, ahead = torch.func.jvp(call, (x,), (tangent,))
    except Exception:
        return None
    return ahead if ahead.any() else None


def distance(left: Tensor, right: Tensor) -> float:
    """Relative; infinite where only one is finite."""
    if not torch.equal(left.isfinite(), right.isfinite()):
        return torch.inf
    left, right = (torch.nan_to_num(each, 0, 0, 0) for each in (left, right))
    return float((left - right).norm() / torch.maximum(left.norm(), right.norm()).clamp_min(1e-300))

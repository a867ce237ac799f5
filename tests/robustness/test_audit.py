"""The audit of derivatives: it counts, a cut of it passes, and a planted error is found."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from robustness import audit
from robustness.audit_models import MODELS
from robustness.audit_ops import OPS, modules
from robustness.campaign import Effort, Tally
from sgfi.derivatives import capture
from sgfi.derivatives.rules.ops import RULES, Linear, Rule


def test_there_are_enough_of_both() -> None:
    assert len(OPS) + len(modules()) >= 200 and len(MODELS) >= 40


def test_a_cut_of_the_audit_finds_nothing() -> None:
    ops, models = audit.run(Effort(share=0.025))
    assert ops.tried >= 5 and models.tried >= 1
    assert not ops.failed and not models.failed, (ops.failures, models.failures)


def test_a_silent_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(call: object, argument: object, item: object) -> Linear:
        return Linear(lambda t: 1.001 * t * call.out, lambda c: 1.001 * c * call.out)  # type: ignore[attr-defined]

    monkeypatch.setitem(RULES, "exp", Rule(of=of))  # type: ignore[arg-type]
    monkeypatch.setattr(audit.sgfi, "capture", partial(capture, check=False))
    tally = Tally("planted", 0)
    assert audit.audited(tally, "exp", lambda: (audit.Applied(torch.exp, 3), (2, 3))) == ""
    assert tally.row().faults == {"silent difference": 1}


def test_a_refusal_is_told_and_is_no_fault() -> None:
    class Held(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.detach()

    tally = Tally("refused", 0)
    reason = audit.audited(tally, "held", lambda: (Held(), (2, 3)))
    assert "detach" in reason and not tally.row().failed
    assert "1 refused by name: held" in audit.told(tally, [reason]).worst

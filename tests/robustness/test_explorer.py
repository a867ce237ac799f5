"""A small share of the campaign against the explorer's server."""

from __future__ import annotations

from robustness import explorer
from robustness.campaign import Effort


def test_strangers_are_refused_and_nothing_breaks() -> None:
    rows = explorer.run(Effort(share=0.03))
    assert [row.failures for row in rows] == [()] * 4
    assert all(row.tried >= 10 for row in rows)

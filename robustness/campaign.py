"""What every campaign shares: how much to try, how trials are counted, the row of the table that comes of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

FAULTS = ("traceback", "hang", "silent difference", "code execution", "data lost")
"""What must never happen. A traceback is any exception that is no ``SgfiError`` (or an exit code of one)."""
KEPT = 20
"""Descriptions of failures that a row keeps."""


@dataclass(frozen=True)
class Effort:
    """How much a campaign tries, and from which seed."""

    seed: int = 0
    share: float = 1.0
    """Of the full campaign; the tests run a small share."""

    def count(self, full: int, least: int = 1) -> int:
        """Trials in place of ``full``."""
        return max(least, round(full * self.share))

    def seed_of(self, name: str) -> int:
        """A seed for one row, the same whichever other rows run."""
        return (self.seed + zlib.crc32(name.encode())) % 2**31


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    tried: int
    failed: int
    worst: str
    """The worst that was seen: a number with its unit, or a sentence; empty where there is nothing to tell."""
    seed: int
    faults: dict[str, int] = field(default_factory=dict)
    """Failures by kind (:data:`FAULTS`)."""
    failures: tuple[str, ...] = ()
    """The first few, in words that let one try them again."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


Campaign = Callable[[Effort], list[Row]]
"""A campaign module ``robustness.<name>`` has a function ``run`` of this type."""


class Tally:
    """Counts the trials of one row."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed, self.worst = name, seed, ""
        self._tried = 0
        self._faults: dict[str, int] = {}
        self._failures: list[str] = []
        self._worst_value = float("-inf")

    def tried(self, count: int = 1) -> None:
        self._tried += count

    def fail(self, fault: str, description: str) -> None:
        """One trial that ended as it must not."""
        if fault not in FAULTS:
            raise ValueError(f"a fault among {FAULTS}, not {fault!r}")
        self._faults[fault] = self._faults.get(fault, 0) + 1
        if len(self._failures) < KEPT:
            self._failures.append(f"{fault}: {' '.join(description.split())}")

    def measure(self, value: float, description: str) -> None:
        """Something measured in every trial, of which the largest value is shown."""
        if value > self._worst_value:
            self._worst_value, self.worst = value, " ".join(description.split())

    def row(self) -> Row:
        failed = sum(self._faults.values())
        worst = self.worst or (self._failures[0] if self._failures else "")
        return Row(self.name, self._tried, failed, worst, self.seed, dict(self._faults), tuple(self._failures))

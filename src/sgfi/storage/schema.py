"""What a JSON value must look like, checked before anything is made of it.

A shape has ``check(value, where)``, which raises :class:`Misfit` at the first value that does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

DEEPEST = 64
"""Levels of nested lists and mappings."""


class Misfit(Exception):
    """A value that does not fit."""

    def __init__(self, where: str, expected: str, value: Any) -> None:
        shown = repr(value) if isinstance(value, (str, int, float)) or value is None else type(value).__name__
        self.where, self.expected, self.got = where, expected, shown[:100]
        super().__init__(f"{expected} at {where}, not {self.got}")


class Shape(Protocol):
    def check(self, value: Any, where: str) -> None: ...


@dataclass(frozen=True)
class Text:
    longest: int = 4096
    pattern: str = ""
    what: str = "text"

    def check(self, value: Any, where: str) -> None:
        fits = isinstance(value, str) and len(value) <= self.longest
        if not fits or (self.pattern and not re.fullmatch(self.pattern, value)):
            raise Misfit(where, f"{self.what} of at most {self.longest} characters", value)


@dataclass(frozen=True)
class Whole:
    low: int = 0
    high: int = 2**62

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise Misfit(where, f"a whole number from {self.low} to {self.high}", value)


@dataclass(frozen=True)
class Real:
    """A number; ``inf`` and ``nan`` too, which diagnostics may hold."""

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise Misfit(where, "a number", value)


@dataclass(frozen=True)
class Word:
    among: Collection[Any]

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, (str, int)) or value not in self.among:
            raise Misfit(where, f"one of {sorted(map(str, self.among))}", value)


@dataclass(frozen=True)
class Either:
    shapes: tuple[Shape, ...]

    def check(self, value: Any, where: str) -> None:
        for shape in self.shapes[:-1]:
            try:
                return shape.check(value, where)
            except Misfit:
                pass
        return self.shapes[-1].check(value, where)


@dataclass(frozen=True)
class Nothing:
    def check(self, value: Any, where: str) -> None:
        if value is not None:
            raise Misfit(where, "nothing", value)


@dataclass(frozen=True)
class Items:
    """A list."""

    of: Shape
    most: int = 100_000

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) > self.most:
            raise Misfit(where, f"a list of at most {self.most}", value)
        for index, item in enumerate(value):
            self.of.check(item, f"{where}[{index}]")


@dataclass(frozen=True)
class Sizes:
    """A tensor's shape, of which at most ``most`` numbers can be made; the batch axis may be open."""

    most: int

    def check(self, value: Any, where: str) -> None:
        Items(Either((Nothing(), Whole(1, self.most))), 16).check(value, where)
        if prod(size or 1 for size in value) > self.most:
            raise Misfit(where, f"a shape of at most {self.most} numbers", str(value))


@dataclass(frozen=True)
class Table:
    """A mapping from any names to values of one shape."""

    of: Shape | None = None
    most: int = 100_000

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) > self.most:
            raise Misfit(where, f"a mapping of at most {self.most}", value)
        for name, item in value.items():
            if self.of is not None:
                self.of.check(item, f"{where}[{name[:80]!r}]")


@dataclass(frozen=True)
class Record:
    """A mapping with known keys."""

    needed: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    closed: bool = False
    """Whether other keys are refused."""

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Misfit(where, "a mapping", value)
        for name in self.needed:
            if name not in value:
                raise Misfit(where, f"{name!r}", None)
        for name, item in value.items():
            shape = self.needed.get(name) or self.optional.get(name)
            if shape is not None:
                shape.check(item, f"{where}.{name}")
            elif self.closed:
                raise Misfit(where, f"keys among {[*self.needed, *self.optional]}", name)


def check_depth(value: Any, where: str, deepest: int = DEEPEST) -> None:
    """Nested no deeper than ``deepest``, without recursion."""
    level = [value]
    for _ in range(deepest):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise Misfit(where, f"at most {deepest} nested levels", "more")

"""Errors in three beats: what was expected, what was got, what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral

LONGEST = 1000
"""Characters of what was got."""


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 100]} ... ({len(text)} characters)"


class SgfiError(Exception):
    """Something the caller can correct. The message says what was expected, what was got and what to do."""

    def __init__(self, expected: str, got: str, todo: str) -> None:
        self.expected, self.got, self.todo = expected, _shortened(got), todo
        super().__init__(f"expected {self.expected}; got {self.got}. {todo}")

    def __reduce__(self):  # an exception with three arguments must say how it is rebuilt after pickling
        return type(self), (self.expected, self.got, self.todo)


class CaptureError(SgfiError):
    """The model could not be captured as a tensor graph."""


class DerivativeError(CaptureError):
    """An op's derivative is missing or wrong."""


class PlanError(SgfiError):
    """The boundaries, axes, partitions or operators do not fit the graph."""


class CalibrationError(SgfiError):
    """The calibration data or the fit is unusable."""


class QueryError(SgfiError):
    """The query does not fit the family or the model."""


class StoreError(SgfiError):
    """Map files are missing, damaged, in the way, or belong to another model."""


class PluginError(SgfiError):
    """What an installed package adds cannot be used."""


class DataError(SgfiError):
    """Images, arrays, text or weights could not be read."""


def whole(value: object, least: int = 0) -> bool:
    """Whether it is a whole number of at least ``least``; ``True`` is none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def did_you_mean(name: str, known: Iterable[str], most: int = 3) -> str:
    """A sentence that suggests the known names most similar to ``name``; empty when none is similar."""
    similar = difflib.get_close_matches(name, list(known), n=most, cutoff=0.5)
    return f"Did you mean {', '.join(map(repr, similar))}?" if similar else ""


def first_line(error: BaseException, most: int = 300) -> str:
    """What another library's error says, without its dumps."""
    return (str(error).strip().splitlines() or [""])[0][:most]

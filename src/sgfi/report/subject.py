"""What a report is about: a model, inputs, and the estimators that are asked about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from sgfi.inputs.loaded import LoadedModel
from sgfi.inversion import MapFamily, Query
from sgfi.natural import NaturalInverse


@dataclass(frozen=True)
class Maps:
    """A map family, fitted or read when the report comes to it."""

    folder: str
    """As commands name it."""
    open: Callable[[], MapFamily] = field(repr=False)
    manifest: Callable[[], Mapping[str, Any]] = field(repr=False)
    """Read after :attr:`open`."""


@dataclass(frozen=True, eq=False)
class Subject:
    """Inputs of one model and who answers for it."""

    loaded: LoadedModel
    lens: NaturalInverse
    x: Tensor
    """(N, *input)"""
    names: tuple[str, ...]
    targets: tuple[str, ...]
    """Tensors to choose from, shallow to deep: those that every estimator can be asked about."""
    maps: Maps | None = None
    tokens: tuple[tuple[str, ...], ...] = ()
    """Of sequences: what stands at each position of each input."""


@dataclass(frozen=True)
class ReportSettings:
    """What is asked, and how long it may take."""

    queries: tuple[Query, ...] = ()
    """The caller's own, shown with their controls."""
    depths: int = 4
    seconds: float | None = 120.0
    """No step is begun later; ``None``: no limit."""
    title: str = ""
    lead: str = ""
    command: str = ""
    """How the page was made."""
    source: str = ""
    """Model or map folder as commands name it; the model's own name where empty."""
    more: str = ""
    """Further commands to copy."""
    foot: str = ""

"""What an experiment file may say, and how files are laid over each other.

A file is a JSON object over ``files/base.json``. Sections ``model``, ``data``, ``plan`` and ``calibration`` say what is
calibrated; ``variants`` are small changes of these sections, each calibrated and measured by itself; ``measures`` are
taken of every variant, ``pairs`` of every ordered pair of them or of those named, ``across`` of the tables of all of
them. ``plan`` and ``calibration`` take whatever :func:`sgfi.plan` and :func:`sgfi.calibrate` take: a new option needs
no change here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import sgfi
from sgfi.errors import DataError, did_you_mean
from sgfi.experiments.measures import ACROSS, MEASURES, PAIRS
from sgfi.experiments.sections import LAYER, SECTIONS, DataSettings, ModelSettings, Sections
from sgfi.settings import JsonSettings, check_keys, read_settings

RELATIONS = ("<", ">", "=")
CHOSEN = "of"
"""The option of any pair measure that lists its pairs of variants; without it every ordered pair is measured."""
REPLACED_WHOLE = ("variants", "measures", "pairs", "across")
"""A file that names one of these says all of it."""


@dataclass(frozen=True)
class Claim(JsonSettings):
    """A sentence of the paper, or of ours, and the comparison that decides it.

    ``left`` and ``right`` are ``measure/variant/row/score`` (``*``: every variant) or, on the right, a number; with
    ``factor`` the right side is multiplied first.
    """

    says: str
    left: str
    relation: str
    right: str | float
    factor: float = 1.0
    ours: bool = False
    """The paper does not say so: a condition that its claims need, or a law of the code."""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise DataError(f"a relation among {list(RELATIONS)}", repr(self.relation), "Choose one of these.")


@dataclass(frozen=True)
class Experiment:
    """A resolved experiment: nothing is left to look up."""

    name: str
    title: str
    question: str = ""
    section: str = ""
    """Of the paper."""
    model: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] = field(default_factory=dict)
    lpips_trunk: str | None = None
    resamples: int = 10_000
    measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    across: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"as declared": {}})
    figures: tuple[Mapping[str, Any], ...] = ()
    """``measure``, ``score`` and, where one row is meant, ``row``."""
    paper: tuple[Mapping[str, Any], ...] = ()
    """The paper's own numbers: ``row`` (measure/variant/row/score, any of them ``*``), ``says`` and its ``network``."""
    differs: str = ""
    """Why our numbers cannot be the paper's."""
    claims: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for label in self.variants:
            self.settings(label)
            if "/" in label:
                raise DataError("labels of variants without '/'", repr(label), "It stands in addresses of numbers.")
        _check_named(self.measures, MEASURES, "measures")
        _check_named(self.pairs, PAIRS, "pair measures", (CHOSEN,))
        for options in self.pairs.values():
            for pair in options.get(CHOSEN, ()):
                check_keys(dict.fromkeys(pair), self.variants, "variants of a pair")
        _check_named(self.across, ACROSS, "measures across variants")
        for claim in self.claims:
            Claim.from_dict(claim)
        for entry in self.paper:
            check_keys(entry, ("row", "says", "network"), "settings of a number of the paper")
        for figure in self.figures:
            check_keys(figure, ("measure", "score", "row"), "figure settings")

    def settings(self, label: str) -> Sections:
        """The sections of one variant."""
        change = self.variants[label]
        check_keys(change, SECTIONS, f"sections of the variant {label!r}")
        merged = {name: overlay(self._section(name), change.get(name) or {}) for name in SECTIONS}
        internal = ("plan", "batches", "checkpoint", "progress", "provenance")
        return Sections(
            ModelSettings.from_dict(merged["model"]),
            DataSettings.from_dict(merged["data"]),
            _checked(merged["plan"], sgfi.plan, ("graph",), LAYER),
            _checked(merged["calibration"], sgfi.calibrate, internal, ("memory",)),
        )

    def _section(self, name: str) -> Mapping[str, Any]:
        section = getattr(self, name)
        if not isinstance(section, Mapping):
            raise DataError(f"the section {name!r} as a mapping", repr(section), "Write {...}.")
        return section

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return json.loads(json.dumps(asdict(self)))


def available() -> dict[str, str]:
    """Shipped experiments: name -> title."""
    names = sorted(file.name.removesuffix(".json") for file in _files().iterdir() if file.name.endswith(".json"))
    return {name: _shipped(name)["title"] for name in names if name != "base"}


def declare(name: str | Path, *changes: Mapping[str, Any], settings: Sequence[Mapping[str, Any]] = ()) -> Experiment:
    """A shipped experiment by name, or a file of your own, over the base and under ``changes``.

    ``settings`` come last and are merged key by key all the way down: one option of a measure leaves the others.
    """
    path = Path(name)
    own = read_settings(path) if path.suffix == ".json" else _shipped(str(name))
    merged = overlay(_shipped("base"), {"name": path.stem, **own})
    for change in changes:
        merged = overlay(merged, change)
    for setting in settings:
        merged = overlay(merged, setting, whole=())
    check_keys(merged, Experiment.__dataclass_fields__, "settings of an experiment")
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}
    return Experiment(**fields)


def overlay(
    base: Mapping[str, Any], change: Mapping[str, Any], whole: tuple[str, ...] = REPLACED_WHOLE
) -> dict[str, Any]:
    """``change`` over ``base``: objects are merged key by key, but those named in ``whole`` are replaced."""
    if not isinstance(change, Mapping):
        raise DataError("settings as a mapping", repr(change), "Write {...}.")
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and key not in whole
        merged[key] = overlay(merged[key], value, whole) if both else value
    return merged


def _files() -> Any:
    return resources.files("sgfi.experiments") / "files"


def _shipped(name: str) -> dict[str, Any]:
    file = _files() / f"{name}.json"
    if not file.is_file():
        known = available()
        raise DataError(
            "an experiment by name, or a .json file",
            repr(name),
            did_you_mean(name, known) or f"There are {list(known)}.",
        )
    return json.loads(file.read_text(encoding="utf-8"))


def _checked(
    given: Mapping[str, Any], function: Callable[..., Any], without: tuple[str, ...], more: tuple[str, ...] = ()
) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in without]
    check_keys(given, [*known, *more], f"settings of sgfi.{function.__name__}")
    return dict(given)


def _check_named(
    given: Mapping[str, Mapping[str, Any]], known: Mapping[str, Any], what: str, more: tuple[str, ...] = ()
) -> None:
    check_keys(given, known, what)
    for name, options in given.items():
        check_keys(options, [*known[name].options, *more], f"options of {name!r}")

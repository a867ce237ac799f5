"""From a question to its answer: one function a stage. All of them run on the worker, and stop where nobody waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.trust import OPERATING_POINT, trust
from sgfi.explorer import decide, reading, tokens
from sgfi.explorer.lenses import Lens
from sgfi.explorer.pictures import painter
from sgfi.explorer.store import Artefact
from sgfi.explorer.worker import Tick
from sgfi.explorer.workspace import Question, Workspace
from sgfi.figures.answers import opacity_of
from sgfi.inversion import Inverse
from sgfi.natural.path import POINT


@dataclass(frozen=True, eq=False)
class Case:
    """A question with what it is about."""

    lens: Lens
    estimator: sgfi.Estimator
    x: Tensor
    """(1, *input)"""
    query: sgfi.Query
    stage: str
    other: Tensor | None = None
    """(1, *input) the second input of what compares two."""
    jacobian_lens: Path | None = None


def answer(workspace: Workspace, question: Question, tick: Tick) -> Artefact:
    """Work out an answer."""
    lens = workspace.lens(question.lens)
    x = workspace.prepared(question.lens, question.input)
    other = workspace.prepared(question.lens, question.other) if question.other else None
    other = other if other is not None and other.shape == x.shape else None
    tick()
    estimator = workspace.watched(lens.at(x), tick)
    case = Case(lens, estimator, x, workspace.parse(question.query), question.stage, other, workspace.jacobian_lens)
    began = time.perf_counter()
    made = STAGES[question.stage](case)
    seconds = round(time.perf_counter() - began, 4)
    facts = {
        "query": question.query,
        "stage": question.stage,
        "other": question.other,
        **made.facts,
        "seconds": seconds,
    }
    return Artefact(made.tensors, facts)


def _inverse(case: Case) -> Artefact:
    (inverse,) = sgfi.sweep(case.estimator, case.x, [case.query], stage=case.stage)
    return Artefact({"value": inverse.value}, _facts(case, inverse))


def _preview(case: Case) -> Artefact:
    """The plain gradient at the input alone: the cheapest thing that can be drawn, and labelled as what it is."""
    lens = case.estimator
    if isinstance(lens, sgfi.NaturalInverse):
        lens = replace(lens, path=POINT, target_value="tangent")
    return _inverse(replace(case, estimator=lens, stage="raw"))


def _share(case: Case) -> Artefact:
    """The answer with the share of the details that it determines, which fades what it does not."""
    (inverse,) = sgfi.sweep(case.estimator, case.x, [case.query])
    opacity, most = opacity_of(inverse)
    if opacity is None:
        return Artefact({"value": inverse.value}, {**_facts(case, inverse), "share": None})
    faded = inverse.value[0] * opacity
    facts = {**_facts(case, inverse), "share": most, "exact_share": getattr(inverse, "share_is_exact", False)}
    if case.lens.picture:
        facts["gain"] = painter(case.lens, case.estimator, case.x).gain(faded)
    return Artefact({"value": inverse.value, "opacity": opacity}, facts)


def _facts(case: Case, inverse: Inverse) -> dict[str, Any]:
    value = inverse.value
    facts: dict[str, Any] = {
        "length": float(value.double().norm()),
        "cosine": float(pixel_cosine(value, case.x - case.estimator.origin)[0]),
    }
    for name in ("residual", "steps", "ridge"):
        number = getattr(inverse, name, None)
        if isinstance(number, Tensor) and torch.isfinite(number).all():
            facts[name] = float(number[0])
    if case.lens.picture:
        facts["gain"] = painter(case.lens, case.estimator, case.x).gain(value[0])
    if case.lens.text:
        facts |= tokens.strip(value)
    return facts


def _trust(case: Case) -> Artefact:
    """Random, swapped and zero target, and the neighbours."""
    checked = trust(case.estimator, case.x, case.query, others=case.other)
    node = case.estimator.node(case.query.target)
    nothing = torch.zeros_like(case.estimator.state(case.x, node.name))
    (blank,) = sgfi.sweep(case.estimator, case.x, [case.query], terminal=nothing)
    tensors = {"value": checked.inverse.value}
    for name, label in (("random", "random target"), ("swapped", "another input's target")):
        if label in checked.controls:
            tensors[name] = checked.controls[label]
    facts: dict[str, Any] = {
        "random": _number(checked.random),
        "swapped": _number(checked.swapped),
        "neighbours": _number(checked.neighbours),
        "zero": float(blank.value.abs().max()),
        "numbers": checked.numbers,
        "sentence": checked.sentence(),
        "verdict": checked.verdict(),
    }
    if case.lens.picture:
        gains = {name: painter(case.lens, case.estimator, case.x).gain(tensor[0]) for name, tensor in tensors.items()}
        facts["gains"] = gains
    return Artefact(tensors, facts)


def _number(score: Tensor | None) -> float | None:
    return None if score is None else float(score[0])


def _scores(case: Case) -> Artefact:
    return Artefact(facts=decide.scores(case.estimator, case.x, case.query))


def _reads(case: Case) -> Artefact:
    return reading.reads(case.estimator, case.x, case.query)


def _decide(case: Case) -> Artefact:
    return Artefact(facts=decide.groups(case.estimator, case.x, case.query))


def _tokens(case: Case) -> Artefact:
    return Artefact(facts=tokens.grid(case.lens, case.estimator, case.x, case.jacobian_lens))


STAGES: dict[str, Callable[[Case], Artefact]] = {
    "preview": _preview,
    "raw": _inverse,
    "first": _inverse,
    "final": _inverse,
    "share": _share,
    "trust": _trust,
    "scores": _scores,
    "reads": _reads,
    "decide": _decide,
    "tokens": _tokens,
}
INVERSES = ("preview", "raw", "first", "final", "share")
URGENCY = {
    "preview": 0,
    "raw": 1,
    "final": 1,
    "first": 1,
    "scores": 1,
    "tokens": 1,
    "decide": 2,
    "reads": 2,
    "share": 2,
    "trust": 3,
}
"""The order in which the worker takes questions that wait."""
THUMBNAILS = {stage: 2 if stage == "preview" else 4 for stage in STAGES}
"""The same of thumbnails: all of them as previews first, the rest when the question at hand has its controls."""
LIMITS = {"operating_point": OPERATING_POINT}

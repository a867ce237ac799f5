"""Does a picture answer its query? Removal, witnesses and controls of many methods on the same tensors and inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import isnan, nan, prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.occlusion import Occlusion, occlusion
from sgfi.evaluation.random_targets import noise_like
from sgfi.evaluation.removal import SCALES, Trial, best_at_own
from sgfi.evaluation.selectivity import likeness
from sgfi.experiments.cases import Case
from sgfi.experiments.ledger import Ledger, Scores
from sgfi.experiments.measures.contestants import DECODER, ESTIMATORS, MAPS, NATURAL, Contestants, prior_of
from sgfi.experiments.measures.registry import Table, evaluation_batches, measure
from sgfi.experiments.provenance import code_digest
from sgfi.graph import Node
from sgfi.inversion import Estimator, Query
from sgfi.language import energy_profile, future_mass, nearest
from sgfi.natural import reference_state
from sgfi.settings import JsonSettings

STRONGEST = ("state", "deviation")


@dataclass(frozen=True)
class Asked(JsonSettings):
    """Which queries are put to every target."""

    channels: int = 16
    """Those whose energy is largest in the ``strongest``: the state, or its deviation from the reference."""
    cells: int = 16
    """Every so many in the order of rows: on a square target some may stand in one column."""
    strongest: str = "state"

    def __post_init__(self) -> None:
        if self.strongest not in STRONGEST or min(self.channels, self.cells) < 2:
            expected = f"two channels and cells or more, strongest among {list(STRONGEST)}"
            raise QueryError(expected, repr(self), "Correct it.")


@measure()
def answers(
    case: Case,
    *,
    targets: Sequence[str] = (),
    methods: Sequence[str] = (*NATURAL, MAPS, "raw VJP", "gradient", DECODER),
    queries: Mapping[str, Any] | None = None,
    images: int | Sequence[int] | None = None,
    fewer: Mapping[str, int] | None = None,
    controls: int = 16,
) -> Table:
    """Removal at three scales, self-excitation, agreement with occlusion, likeness, controls, seconds a query.

    ``queries``: see :class:`Asked`. ``fewer`` inputs for the methods it names; ``controls`` is on how many inputs
    random, swapped and zero targets are tried. ``images`` is how many inputs, or from which to which: another run may
    have the first ones and stand in one table with this one (:func:`sgfi.experiments.answer_tables.joined`).
    """
    asked = Asked.from_dict(queries or {})
    start, stop = span(images)
    prior = prior_of(case)
    targets = tuple(targets) or (case.plan.target,)
    contestants = Contestants(case, prior, methods, targets)
    ledger = Ledger(case.families.parent / "answers", _facts(case, asked))
    table: Table = {}
    for number, (x, other, partner) in enumerate(_pairs(case, stop)):
        if number < start:
            continue
        scene = _Input(contestants, x, other, targets, asked)
        for (target, kind), method in product(_kinds(case, targets), methods):
            if number >= (fewer or {}).get(method, number + 1):
                continue
            controlled = number < controls and method in ESTIMATORS and partner != number
            name = f"{number} {target} {kind} {contestants.identity(method)}"
            name += f" controlled by {partner}" * controlled
            scores = ledger.take(name, partial(scene.scores, target, kind, method, controlled))
            row = table.setdefault(f"{method}, {target}, {kind}", {})
            for score, value in scores.items():
                row.setdefault(score, []).append(value)
    if not table:
        got = f"none for images={images!r} and fewer={dict(fewer or {})}"
        raise QueryError("inputs and methods to measure", got, "Ask for inputs that the data and `fewer` leave.")
    return table


def span(images: int | Sequence[int] | None) -> tuple[int, int | None]:
    """The first evaluated input and the one after the last."""
    if not isinstance(images, (list, tuple)):
        return 0, images  # type: ignore[return-value]
    if len(images) != 2 or not all(type(number) is int for number in images) or not 0 <= images[0] < images[1]:
        raise QueryError("a number of inputs, or the first and the one after the last", repr(images), "As in [32, 64].")
    return images[0], images[1]


@dataclass(frozen=True, eq=False)
class _Input:
    """One input (1, ...) with its queries; what several methods need is worked out once."""

    contestants: Contestants
    x: Tensor
    other: Tensor
    """Another input, for controls."""
    targets: Sequence[str]
    asked: Asked

    @cached_property
    def queries(self) -> dict[tuple[str, str], list[Query]]:
        graph = self.contestants.case.plan.graph
        nodes = {target: graph.nodes[target] for target in self.targets}
        program = graph.program(("input",), tuple(node.name for node in nodes.values()))
        with torch.no_grad():
            states = program(self.x)
            usual = [reference_state(graph, node.name, self.x, self.contestants.prior) for node in nodes.values()]
        return {
            (target, kind): queries
            for (target, node), state, reference in zip(nodes.items(), states, usual, strict=True)
            for kind, queries in strongest_and_spread(node, state[0], reference, self.asked)
        }

    @cached_property
    def trials(self) -> dict[tuple[str, str], Trial]:
        graph, prior = self.contestants.case.plan.graph, self.contestants.prior
        return {key: Trial.of(graph, self.x, queries, prior) for key, queries in self.queries.items()}

    @cached_property
    def occlusions(self) -> dict[tuple[str, str], Occlusion]:
        queries = [query for queries in self.queries.values() for query in queries]
        covered = occlusion(self.contestants.case.plan.graph, self.x, queries, self.contestants.prior)
        parts = covered.maps.split([len(queries) for queries in self.queries.values()])
        return {key: Occlusion(part, covered.window) for key, part in zip(self.queries, parts, strict=True)}

    def scores(self, target: str, kind: str, method: str, controlled: bool) -> Scores:
        """Means over the queries of one kind on one target."""
        queries = self.queries[target, kind]
        if method in ESTIMATORS:
            self.contestants.estimator(method)  # a fit is no part of an answer's seconds
        start = time.perf_counter()
        values = self.contestants.values(method, queries, self.x)
        seconds = (time.perf_counter() - start) / len(queries)
        agreed = [value for value in self.occlusions[target, kind].agreement(values) if not isnan(value)]
        scores = _judged(self.trials[target, kind], values) | {
            "occlusion_agreement": sum(agreed) / len(agreed) if agreed else nan,
            "seconds_per_query": seconds,
        }
        case = self.contestants.case
        if case.loaded.embed is not None and kind == "cells":
            scores["future_energy"] = _future(queries, values)
        if method not in ESTIMATORS:
            return scores
        estimator = self.contestants.estimator(method)
        table = case.loaded.vocabulary
        if table is not None and kind == "cells":
            places = [value + estimator.origin for value in values]
            scores["exact_token"] = _exact(queries, places, self.x, table)
        return scores | (_controls(estimator, queries, values, self.x, self.other) if controlled else {})


def _facts(case: Case, asked: Asked) -> dict[str, object]:
    """What every entry of the ledger depends on, beside its method."""
    return {
        "weights": case.plan.graph.fingerprint,
        "calibration": case.calibration.digest,
        "evaluation": case.evaluation.digest,
        "input": case.loaded.provenance,
        "queries": [asked.channels, asked.cells, asked.strongest],
        "code": code_digest(),
    }


def _kinds(case: Case, targets: Sequence[str]) -> list[tuple[str, str]]:
    """Every target with the kinds of queries it has at least two of."""
    nodes = {target: case.plan.graph.nodes[target] for target in targets}
    sizes = {target: {"channels": node.channels, "cells": prod(node.coord_shape)} for target, node in nodes.items()}
    return [(target, kind) for target, kinds in sizes.items() for kind, size in kinds.items() if size > 1]


def _pairs(case: Case, images: int | None) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Every evaluated input (1, ...) with the next one of its batch and that one's number."""
    start = 0
    for batch in evaluation_batches(case, images):
        for index in range(len(batch)):
            after = (index + 1) % len(batch)
            yield batch[index : index + 1], batch[after : after + 1], start + after
        start += len(batch)


def strongest_and_spread(node: Node, state: Tensor, mean: Tensor, asked: Asked) -> Iterator[tuple[str, list[Query]]]:
    """The strongest channels of a state (*target), compared with its ``mean``, and cells spread over it."""
    state = state - mean if asked.strongest == "deviation" else state
    energy = state.movedim((node.channel_axis or 1) - 1, 0).flatten(1).square().sum(1)
    strongest = energy.topk(min(asked.channels, len(energy))).indices.tolist()
    coords = list(product(*map(range, node.coord_shape)))
    step = max(1, len(coords) // asked.cells)
    spread = coords[step // 2 :: step][: asked.cells]
    yield "channels", [Query(node.name, channel) for channel in strongest]
    yield "cells", [Query(node.name, None, [coord]) for coord in spread]


def _judged(trial: Trial, values: list[Tensor]) -> Scores:
    pushed = trial.pushed(values)
    scores = {"excites_itself": float(best_at_own(pushed).mean())}
    for scale in SCALES:
        measured = trial.removal(values, scale, pushed=pushed)
        scores[f"best_at_own_{scale}"] = float(measured.best_at_own.mean())
        scores[f"own_{scale}"] = float(measured.own.mean())
        scores[f"others_{scale}"] = float(measured.others.mean())
        scores[f"size_{scale}"] = float(measured.size.mean())
    stack, prior, whole = torch.cat(values), trial.prior, trial.x - trial.prior.mean_like(trial.x)
    energy = prior.energy(stack) / stack.flatten(1).square().sum(1).clamp_min(1e-30)
    relative = energy / (prior.energy(whole) / whole.square().sum())
    scores["roughness"] = float(relative.mean())  # prior energy at equal length; 1: like the input itself
    scores["likeness"] = float(likeness(F.normalize(stack.flatten(1), dim=1)))
    return scores


def _controls(estimator: Estimator, queries: list[Query], values: list[Tensor], x: Tensor, other: Tensor) -> Scores:
    """Cosines of the answers with what random and another input's targets give, and with the other input's answers;
    the length of the first query's answer to a zero target, relative to its own answer's."""
    node = estimator.node(queries[0].target)
    state, elsewhere = estimator.state(x, node.name), estimator.state(other, node.name)
    noise = [noise_like(state, query.selection(node, x.device), seed) for seed, query in enumerate(queries)]
    targets = torch.stack([*noise, *[elsewhere] * len(queries), torch.zeros_like(state)])
    answered = [i.value for i in sgfi.sweep(estimator, x, [*queries, *queries, queries[0]], terminal=targets)]
    controls = {
        "random": answered[: len(queries)],
        "swapped": answered[len(queries) : -1],
        "unrelated": [inverse.value for inverse in sgfi.sweep(estimator, other, queries)],
    }
    scores = {"zero": float(answered[-1].norm() / values[0].norm().clamp_min(1e-30))}
    for label, pictures in controls.items():
        cosines = torch.cat([pixel_cosine(a, b) for a, b in zip(pictures, values, strict=True)])
        scores |= {f"{label}_cosine": float(cosines.mean()), f"{label}_cosine_size": float(cosines.abs().mean())}
    return scores


def _position(query: Query) -> int:
    assert query.coords is not None and query.coords[0][0] is not None
    return query.coords[0][0]


def _future(queries: list[Query], values: list[Tensor]) -> float:
    """Mean share of the energy after the queried position, over the positions that have a future."""
    shares = [
        float(future_mass(energy_profile(value[0]), _position(query)))
        for query, value in zip(queries, values, strict=True)
        if _position(query) + 1 < value.shape[1]
    ]
    return sum(shares) / len(shares) if shares else nan


def _exact(queries: list[Query], values: list[Tensor], x: Tensor, table: Tensor) -> float:
    """How often the vocabulary's nearest token to the answer at the queried position is the input's own."""
    places = [_position(query) for query in queries]
    answered = torch.stack([value[0, position] for value, position in zip(values, places, strict=True)])
    return float((nearest(answered, table) == nearest(x[0, places], table)).double().mean())

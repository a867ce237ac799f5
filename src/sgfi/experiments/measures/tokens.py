"""Measures of token-resolved inverses, for language models: quality, causality, routing in controlled contexts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.errors import DataError
from sgfi.evaluation import tokens
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.statistics import cluster_means
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.estimators import MAPS_ALONE, by_estimator
from sgfi.experiments.measures.registry import PAIRS, Table, measure, over_batches, quotient
from sgfi.inversion import STAGES, Estimator
from sgfi.language import (
    Context,
    agreement,
    energy_profile,
    matched_subsets,
    nearest,
    polysemy,
    references,
    stacked,
)

FUNCTION_WORDS = frozenset(
    "the a an and or of to in on at by for from with as his her its my that it is was had there".split()
)
Profiles = Callable[[Tensor], Tensor]
"""Embeddings (B, L, D) -> shares of the positions (B, L)."""


@measure()
def token_quality(
    case: Case,
    *,
    stages: Sequence[str] = STAGES,
    images: int | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Whole-target inverses: embedding cosine and exact-token rate, one number per window."""
    table = vocabulary(case)

    def take(estimator: Estimator) -> Table:
        def each(x: Tensor) -> Table:
            ids = nearest(x, table).squeeze(-1)
            return {stage: tokens.sequence_quality(estimator, ids, x, table, stage) for stage in stages}

        return over_batches(case, images, each)

    return by_estimator(case, estimators, take)


@measure()
def future_energy(
    case: Case,
    *,
    stages: Sequence[str] = STAGES,
    images: int | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Energy after the queried position, mean over all positions that have a future, one number per window."""

    def take(estimator: Estimator) -> Table:
        def each(x: Tensor) -> Table:
            matrices = {stage: tokens.position_matrix(estimator, x, stage) for stage in stages}
            return {stage: {"share": tokens.future_energy(matrix)} for stage, matrix in matrices.items()}

        return over_batches(case, images, each)

    return by_estimator(case, estimators, take)


@measure()
def token_routing(case: Case, *, stages: Sequence[str] = STAGES, estimators: Sequence[str] = MAPS_ALONE) -> Table:
    """Terminal-token queries in the controlled contexts, one number per word or template."""
    last = [case.loaded.input_shape[0] - 1]

    def take(estimator: Estimator) -> Table:
        return routed(case, {stage: partial(tokens.profiles, estimator, coords=last, stage=stage) for stage in stages})

    return by_estimator(case, estimators, take)


@measure()
def token_references(case: Case, *, layer: int = 6, integrated: bool = True) -> Table:
    """The controlled contexts by a direct linear map, attention weights, gradient x input and integrated gradients."""
    vocabulary(case)
    graph, target, lm = case.plan.graph, case.plan.target, case.loaded.model.lm
    seen = torch.cat(list(case.calibration.batches))
    direct = references.direct_map(tokens.features(case.family, seen)[:, -1], seen)
    rows: dict[str, Profiles] = {
        "direct global linear": lambda x: energy_profile(direct(tokens.features(case.family, x)[:, -1])),
        "attention": lambda x: references.attention(lm, x, layer),
        "gradient x input": lambda x: references.gradient_times_input(graph, target, x),
    }
    if integrated:
        rows["integrated gradients"] = lambda x: references.integrated_gradients(graph, target, x)
    return routed(case, rows)


@measure()
def token_controls(case: Case, *, estimators: Sequence[str] = MAPS_ALONE) -> Table:
    """Geometry against content, a zero target and a query at a cue, in the first context of every sense."""
    words = contexts(case)[0][::3]
    x = embedded(case, words)
    last = x.shape[1] - 1

    def take(estimator: Estimator) -> Table:
        own = sgfi.invert(estimator, x, coords=[last])
        zeros = torch.zeros_like(own.states[case.plan.target])
        blank = sgfi.invert(estimator, x, coords=[last], terminal=zeros).value
        cues = [word.cues[0] for word in words]
        cue = torch.cat([sgfi.invert(estimator, x[i : i + 1], coords=[at]).value for i, at in enumerate(cues)])
        return {
            "swap": tokens.geometry_swap(estimator, x, x.roll(-2, 0), [last]),
            "zero terminal": {"largest": float(blank.abs().max())},
            "cue query": {
                "cosine": pixel_cosine(own.value, cue).tolist(),
                "profile_cosine": pixel_cosine(energy_profile(own.value), energy_profile(cue)).tolist(),
            },
        }

    return by_estimator(case, estimators, take)


@measure(of=PAIRS)
def token_agreement(fitted: Case, evaluated: Case) -> Table:
    """Two calibrations on all controlled contexts: cosine of inverses and profiles, overlap of the top positions."""
    x = torch.cat([embedded(evaluated, part) for part in contexts(evaluated)])
    pair = [tokens.inverses(case.family, x, [x.shape[1] - 1]) for case in (fitted, evaluated)]
    return {"final": tokens.agreement_of(*pair)}


def routed(case: Case, rows: Mapping[str, Profiles]) -> Table:
    """Profiles of the terminal token in both controlled benchmarks, by row."""
    words, templates = contexts(case)
    subsets = matched_subsets(words)
    table: Table = {}
    for row, profiles in rows.items():
        semantic, syntactic = (profiles(embedded(case, part)) for part in (words, templates))
        masses = tokens.syntactic(syntactic, templates)
        table[row] = {
            **_by_cluster(tokens.semantic(semantic, words, subsets), words),
            **_by_cluster({"function_words": _on_function_words(semantic, words)}, words),
            **_by_cluster(masses, templates),
            **_by_grammar(masses, templates),
        }
    return table


def _on_function_words(profiles: Tensor, words: Sequence[Context]) -> list[float]:
    """Energy on function words before the queried token."""
    flags = [[t.strip().lower() in FUNCTION_WORDS for t in word.tokens[:-1]] + [False] for word in words]
    return (profiles * torch.tensor(flags)).sum(1).tolist()


def _by_grammar(masses: Mapping[str, Sequence[float]], templates: Sequence[Context]) -> dict[str, Any]:
    """By grammaticality, agreement site minus attractor, and the descriptive ratio of their mean masses."""
    scores: dict[str, Any] = {}
    for kind, rows in tokens.by_grammar(templates).items():
        given = [templates[row] for row in rows]
        own = _by_cluster({role: [values[row] for row in rows] for role, values in masses.items()}, given)
        scores[f"agreement_minus_attractor_{kind}"] = own["agreement_minus_attractor"]
        scores[f"ratio_{kind}"] = quotient(own["auxiliary"], own["attractor"])
    return scores


def _by_cluster(scores: Mapping[str, Sequence[float]], given: Sequence[Context]) -> dict[str, list[float]]:
    clusters = [context.cluster for context in given]
    return {name: cluster_means(values, clusters).tolist() for name, values in scores.items()}


def contexts(case: Case) -> tuple[list[Context], list[Context]]:
    """The words of two senses and the templates of agreement, for the case's tokenizer and length."""
    vocabulary(case)
    length, tokenizer = case.loaded.input_shape[0], case.loaded.tokenizer
    return polysemy(tokenizer, length), agreement(tokenizer, length)


def embedded(case: Case, given: Sequence[Context]) -> Tensor:
    """(N, L, D)"""
    assert case.loaded.embed is not None
    return case.loaded.embed(stacked(given)).detach()


def vocabulary(case: Case) -> Tensor:
    """(V, D)"""
    table = case.loaded.vocabulary
    if table is None:
        raise DataError(
            "a language model for a measure of tokens", case.loaded.spec, "Use an hf: causal language model."
        )
    return table

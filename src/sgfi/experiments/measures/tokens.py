"""Measures of token-resolved inverses, for language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sgfi.errors import DataError
from sgfi.evaluation import tokens
from sgfi.evaluation.statistics import cluster_means
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, carried, measure
from sgfi.inversion import STAGES
from sgfi.language import Context, agreement, matched_subsets, nearest, polysemy, stacked, token_cosine


@measure()
def token_quality(case: Case, *, stages: Sequence[str] = STAGES, images: int | None = None) -> Table:
    """Whole-target inverses: embedding cosine and exact-token rate, one number a window."""
    table = _vocabulary(case)

    def each(x: torch.Tensor) -> Any:
        found = {stage: tokens.inverses(case.family, x, stage=stage) for stage in stages}
        own = nearest(x, table)
        return {
            stage: {
                "embedding_cosine": token_cosine(value, x).mean(1),
                "exact_token": (nearest(value, table) == own).double().mean((1, 2)),
            }
            for stage, value in found.items()
        }

    return carried(case, images, each)


@measure()
def future_energy(case: Case, *, stages: Sequence[str] = STAGES, images: int | None = None) -> Table:
    """Energy after the queried position, mean over all positions that have a future, one number a window."""
    return carried(
        case,
        images,
        lambda x: {
            stage: {"share": tokens.future_energy(tokens.position_matrix(case.family, x, stage))} for stage in stages
        },
    )


@measure()
def token_routing(case: Case, *, stages: Sequence[str] = STAGES) -> Table:
    """Terminal-token queries in the controlled contexts, one number a word or template."""
    length, tokenizer = case.loaded.input_shape[0], case.loaded.tokenizer
    _vocabulary(case)
    words, templates = polysemy(tokenizer, length), agreement(tokenizer, length)
    subsets = matched_subsets(words)
    table: Table = {}
    for stage in stages:
        one, other = (_profiles(case, contexts, stage) for contexts in (words, templates))
        table[stage] = {
            **_by_cluster(tokens.semantic(one, words, subsets), words),
            **_by_cluster(tokens.syntactic(other, templates), templates),
        }
    return table


def _profiles(case: Case, contexts: list[Context], stage: str) -> torch.Tensor:
    embed = case.loaded.embed
    assert embed is not None
    return tokens.profiles(case.family, embed(stacked(contexts)), [contexts[0].terminal], stage)


def _by_cluster(found: dict[str, list[float]], contexts: list[Context]) -> dict[str, list[float]]:
    clusters = [context.cluster for context in contexts]
    return {name: cluster_means(values, clusters).tolist() for name, values in found.items()}


def _vocabulary(case: Case) -> torch.Tensor:
    """(V, D)"""
    if case.loaded.embed is None:
        raise DataError(
            "a language model for a measure of tokens", case.loaded.spec, "Use an hf: causal language model."
        )
    return case.loaded.embed.weight.detach()  # type: ignore[attr-defined]

"""Measures of whole token sequences: re-encoding, other lengths, the display interface, base terms, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import sgfi
from sgfi.decisions.tokens import REACHES, SIZES, TokenSettings, decide_tokens
from sgfi.derivatives import Linearisation
from sgfi.evaluation import tokens
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.estimators import MAPS_ALONE, by_estimator
from sgfi.experiments.measures.registry import Table, evaluation_inputs, measure
from sgfi.experiments.measures.tokens import vocabulary
from sgfi.inversion import STAGES, Estimator
from sgfi.language import (
    Windows,
    draw,
    embedding_model,
    energy_profile,
    entropy,
    exact_tokens,
    fit_interface,
    nearest,
    tokenise,
    transfer,
)


@measure()
def token_reencoding(
    case: Case,
    *,
    stages: Sequence[str] = STAGES,
    images: int | None = None,
    fit: int = 256,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """How well inverses fed forward again are told apart: ROC AUC of matched against cross cosines."""
    x, seen = evaluation_inputs(case, images), _seen(case, fit)

    def take(estimator: Estimator) -> Table:
        centre = tokens.features(estimator, seen).mean(0)
        values = {stage: tokens.inverses(estimator, x, stage=stage) + estimator.origin for stage in stages}
        return {stage: {"auc": tokens.reencoding_auc(estimator, value, x, centre)} for stage, value in values.items()}

    return by_estimator(case, estimators, take)


@measure()
def token_display(
    case: Case, *, stages: Sequence[str] = ("raw", "final"), images: int | None = None, fit: int = 256
) -> Table:
    """DISPLAY ONLY: how often the rank-64 interface shows the source token first, or among the nearest 64."""
    table, x, seen = vocabulary(case), evaluation_inputs(case, images), _seen(case, fit)
    ids = nearest(x, table).squeeze(-1)
    rows: Table = {}
    for stage in stages:
        fitted = tokens.inverses(case.family, seen, stage=stage)
        shown = fit_interface(fitted.flatten(0, 1), seen.flatten(0, 1))(tokens.inverses(case.family, x, stage=stage))
        top = {f"top{k}": exact_tokens(shown, table, ids, min(k, len(table))) for k in (1, 64)}
        rows[stage] = {name: hits.double().mean(1).tolist() for name, hits in top.items()}
    return rows


@measure()
def token_lengths(
    case: Case, *, lengths: Sequence[int] = (8, 12, 16, 24, 32), images: int = 64, seed: int = 11
) -> Table:
    """Whole-target inverses at other lengths, nothing fitted again; windows apart from the calibration's."""
    table, own = vocabulary(case), case.loaded.input_shape[0]
    embed, sample = case.loaded.embed, case.evaluation
    assert embed is not None
    text = tokenise(case.loaded.tokenizer, Path(sample.path).read_text(encoding="utf-8", errors="replace"))
    starts = own * torch.tensor(case.calibration.indices)
    seen = Windows(text[starts.unsqueeze(1) + torch.arange(own - 1)], starts)  # with the next token: whole windows
    taken = [seen] if sample.path == case.calibration.path else []
    rows: Table = {}
    for length in lengths:
        ids = draw(text, images, length, seed, taken).ids
        x = embed(ids).detach()
        there = case.family if length == own else transfer(case.family, sgfi.capture(case.loaded.model, x[:2]))
        rows[str(length)] = tokens.sequence_quality(there, ids, x, table)
    return rows


@measure()
def token_base_terms(case: Case, *, images: int = 32) -> Table:
    """What a perfect first map leaves, |H_u - J H_v|^2 / |H_u|^2, and the first position's share of the energies."""
    plan = case.plan
    point = Linearisation(plan.graph, plan.dag.frontiers, evaluation_inputs(case, images), keep=[plan.target])
    rows: Table = {}
    for name in plan.fitted:
        (child,) = plan.children(name)
        local, state = point.at(name), point.values[child]
        (pushed,) = local.jvp(point.values[name])
        left = _by_position(state - pushed) / _by_position(state)
        rows[name] = {
            "base_share_first_position": float(left[0]),
            "base_share_other_positions": float(left[1:].mean()),
            "first_position_of_states": _first_share(point.values[name]),
            "first_position_of_sources": _first_share(local.vjp([state])),
        }
    return rows


@measure()
def token_decisions(
    case: Case,
    *,
    images: int = 64,
    sizes: Sequence[int] = SIZES,
    repeats: int = 32,
    group: int = 32,
    joint: int = 128,
    joint_repeats: int = 16,
) -> Table:
    """Channel groups of the next-token margin: set to zero in the model, at the last or all positions, and inverted.

    By size on the first ``images`` windows. On the first ``joint`` windows, groups of size ``group`` ranked over all
    positions and edited at the last or at all of them; of ``joint_repeats`` random groups without these channels the
    one with the median drop at all positions stands for a window.
    """
    vocabulary(case)
    x = evaluation_inputs(case, images)
    graph = sgfi.capture(embedding_model(case.loaded.model.lm, last=True), x[:2])
    last = decide_tokens(graph, x, case.plan.target, TokenSettings(sizes=tuple(sizes), repeats=repeats))["terminal"]
    rows: Table = {
        f"{kind}, k={size}": {"margin_drop": _median(drops).tolist()}
        for kind, by_size in last.drops.items()
        for size, drops in by_size.items()
    }
    x = evaluation_inputs(case, joint)
    reach = decide_tokens(
        graph, x, case.plan.target, TokenSettings("all", REACHES, (group,), joint_repeats, apart=True)
    )
    middle = reach["all"].drops["random"][group].median(1).indices.unsqueeze(1)
    for kind in last.drops:
        drops = {where: reach[where].drops[kind][group].double() for where in REACHES}
        if kind == "random":
            drops = {where: drop.gather(1, middle).squeeze(1) for where, drop in drops.items()}
        rows[f"{kind}, ranked over all positions"] = {
            **{f"edited_{where}": drop.tolist() for where, drop in drops.items()},
            "all_minus_terminal": (drops["all"] - drops["terminal"]).tolist(),
        }
    chosen = [groups.of("positive", group)[0] for groups in reach["all"].groups]
    return {**rows, "queries": _queries(case, x, chosen)}


def _queries(case: Case, x: Tensor, chosen: Sequence[Sequence[int]]) -> dict[str, list[float]]:
    """Inverses of each window's channel group: at the last position, and at every position."""
    pairs = []
    for index, channels in enumerate(chosen):
        queries = [sgfi.Query(channels=channels, coords=[x.shape[1] - 1]), sgfi.Query(channels=channels)]
        pairs.append([f.value for f in sgfi.sweep(case.family, x[index : index + 1], queries)])
    values = [torch.cat(side) for side in zip(*pairs, strict=True)]
    terminal, every = map(energy_profile, values)
    return {
        "cosine": pixel_cosine(*values).tolist(),
        "profile_cosine": pixel_cosine(terminal, every).tolist(),
        "entropy_increase": (entropy(every) - entropy(terminal)).tolist(),
        "terminal_mass_terminal": terminal[:, -1].tolist(),
        "terminal_mass_all": every[:, -1].tolist(),
    }


def _seen(case: Case, count: int) -> Tensor:
    """(N, L, D) the first calibration windows."""
    return torch.cat(list(case.calibration.batches))[:count]


def _median(drops: Tensor) -> Tensor:
    """(B,): of several random groups the median."""
    return drops.double() if drops.dim() == 1 else drops.double().quantile(0.5, dim=1)


def _by_position(state: Tensor) -> Tensor:
    """(B, L, D) -> (L,) energy."""
    return state.square().sum((0, 2))


def _first_share(state: Tensor) -> float:
    energy = _by_position(state)
    return float(energy[0] / energy.sum())

"""Whole-sequence inverses of a language model, what stands in their way, and next-token decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import sgfi
from benchmarks.language_bench import (
    COMPARED,
    EVERY,
    HEADLINE,
    LAYER,
    MLP,
    OURS,
    SEEDS,
    SMALL,
    Bench,
    Recipe,
    means,
)
from sgfi.decisions.tokens import REACHES, SIZES, TokenSettings, decide_tokens
from sgfi.evaluation import tokens
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.statistics import bootstrap, contrast
from sgfi.inversion import STAGES
from sgfi.language import draw, embedding_model, energy_profile, entropy, exact_tokens, fit_interface, transfer
from sgfi.storage.folder import read_manifest


def calibrations(bench: Bench) -> dict[str, Any]:
    """What each stage of each node read, what it was to explain, the ridge and the honest error."""
    return {recipe.name: read_manifest(bench.cache / recipe.name)["calibration"] for recipe in bench.known(*EVERY)}


def sequence(bench: Bench) -> dict[str, Any]:
    """Whole layer-6 attention output to embeddings: cosine and exact tokens of held-out windows, by family.

    Our recipe was chosen on these windows.
    """
    return _sequence(bench, bench.held_out.ids[: bench.given.held_out], (*SMALL, *COMPARED))


def unseen(bench: Bench) -> dict[str, Any]:
    """The same on as many other windows, on which nothing was chosen: the paper's mode against ours."""
    count = bench.given.held_out
    return _sequence(bench, bench.held_out.ids[count : 2 * count], (*HEADLINE, *SMALL))


def _sequence(bench: Bench, held: Tensor, recipes: tuple[Recipe, ...]) -> dict[str, Any]:
    x = bench.embed(held)
    known = bench.known(*recipes)
    scores = {}
    for recipe in known:
        family = bench.family(recipe)
        scores[recipe.name] = {
            stage: tokens.sequence_quality(family, held, x, bench.table, stage) for stage in STAGES[1:]
        }
    raw = tokens.sequence_quality(family, held, x, bench.table, "raw")  # the same for every family
    return {
        "windows": len(held),
        "raw": _intervals(raw),
        "families": {name: {stage: _intervals(told) for stage, told in by.items()} for name, by in scores.items()},
        "contrasts": _contrasts(scores),
    }


def _intervals(found: dict[str, list[float]]) -> dict[str, Any]:
    return {key: bootstrap(values).as_dict() for key, values in found.items()}


def _contrasts(scores: dict[str, Any]) -> dict[str, Any]:
    """Paired differences over windows: final against first, families against the paper's, few windows against many."""
    pairs = [((name, "final"), (name, "first")) for name in scores]
    rivals = [(one, COMPARED[0]) for one in (*COMPARED[1:], *SMALL)]
    rivals += [(OURS, one) for one in COMPARED[1:] if one != OURS]
    known = [(a, b) for a, b in rivals if a.name in scores and b.name in scores]
    pairs += [((a.name, "final"), (b.name, "final")) for a, b in known]
    return {
        f"{a} {one} minus {b} {other}": {
            key: contrast(scores[a][one][key], scores[b][other][key]).interval.as_dict() for key in scores[a][one]
        }
        for (a, one), (b, other) in pairs
    }


def mlp(bench: Bench) -> dict[str, Any]:
    """The whole layer-6 MLP output to embeddings; other lengths; and the display interface."""
    held = bench.held_out.ids[: bench.given.held_out]
    x = bench.embed(held)
    fitted = bench.embed(bench.calibration(SEEDS[0], min(2 * bench.given.held_out, bench.given.windows)).ids)
    found: dict[str, Any] = {}
    for recipe in bench.known(*MLP):
        family = bench.family(recipe)
        centre = tokens.features(family, fitted).mean(0)
        told: dict[str, Any] = {}
        for stage in STAGES:
            inverse = tokens.inverses(family, x, stage=stage)
            quality = tokens.sequence_quality(family, held, x, bench.table, stage)
            told[stage] = {
                **_intervals(quality),
                "reencoding_auc": tokens.reencoding_auc(family, inverse, x, centre),
            }
            if stage != "first":
                seen = tokens.inverses(family, fitted, stage=stage)
                told[stage]["display"] = _displayed(bench, seen, fitted, inverse, held)
        told["lengths"] = {str(size): _moved(bench, family, size) for size in (8, 12, 16, 24, 32)}
        found[recipe.name] = told
    return {"windows": len(held), "families": found}


def _displayed(bench: Bench, seen: Tensor, fitted: Tensor, inverse: Tensor, held: Tensor) -> dict[str, Any]:
    """DISPLAY ONLY: how often the rank-64 interface shows the source token among the nearest."""
    interface = fit_interface(seen.flatten(0, 1), fitted.flatten(0, 1))
    shown = interface(inverse)
    shares = {f"top{k}": float(exact_tokens(shown, bench.table, held, k).double().mean()) for k in (1, 64)}
    return {"numbers": interface.size, **shares}


def _moved(bench: Bench, family: sgfi.MapFamily, size: int) -> dict[str, float]:
    """Quality at another length, nothing refitted."""
    windows = draw(bench.ids, max(1, bench.given.held_out // 2), size, 11, bench.taken)
    there = family if size == bench.given.length else transfer(family, bench.graph(LAYER, size))
    return means(tokens.sequence_quality(there, windows.ids, bench.embed(windows.ids), bench.table, "final"))


def base_terms(bench: Bench) -> dict[str, Any]:
    """How much of each child state a perfect first stage would leave, ``|H_u - J H_v|^2 / |H_u|^2``, and how much of
    a node's states and of the sources its maps read stands at the first position."""
    x = bench.embed(bench.held_out.ids[:32])
    found = {}
    for recipe in bench.known(HEADLINE[0], MLP[0]):
        plan = bench.family(recipe).plan
        point = sgfi.graph.Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
        shares = {}
        for name in plan.fitted:
            (child,) = plan.children(name)
            local, state = point.at(name), point.values[child]
            (pushed,) = local.jvp(point.values[name])
            left = _by_position(state - pushed) / _by_position(state)
            shares[name] = {
                "base_share_first_position": float(left[0]),
                "base_share_other_positions": float(left[1:].mean()),
                "first_position_share_of_node_energy": _first_share(point.values[name]),
                "first_position_share_of_source_energy": _first_share(local.vjp([state])),
            }
        found[recipe.part] = shares
    return found


def _by_position(state: Tensor) -> Tensor:
    """(B, L, D) -> (L,) energy."""
    return state.square().sum((0, 2))


def _first_share(state: Tensor) -> float:
    energy = _by_position(state)
    return float(energy[0] / energy.sum())


def decisions(bench: Bench) -> dict[str, Any]:
    """Channel groups of the next-token margin: ablated in the model, and inverted."""
    x = bench.embed(bench.held_out.ids[: bench.given.contexts])
    graph = sgfi.capture(embedding_model(bench.lm, last=True), x[:2])
    target = bench.family(HEADLINE[0]).target
    curve = decide_tokens(graph, x, target, TokenSettings(sizes=SIZES, repeats=32))["terminal"]
    joint = decide_tokens(graph, x, target, TokenSettings(rank_by="all", edit_at=REACHES, sizes=(32,), repeats=16))
    chosen = [groups.of("positive", 32)[0] for groups in joint["all"].groups]
    return {
        "contexts": len(x),
        "margin": float(curve.margin.mean()),
        "drops": {
            kind: {str(size): _drop(values) for size, values in by_size.items()}
            for kind, by_size in curve.drops.items()
        },
        "reach": {
            kind: _reach({where: _middle(joint[where].drops[kind][32]) for where in REACHES})
            for kind in ("positive", "negative", "random")
        },
        "queries": {recipe.name: _queries(bench.family(recipe), x, chosen) for recipe in HEADLINE},
    }


def _reach(ends: dict[str, np.ndarray]) -> dict[str, Any]:
    """An edit at the last position against the same edit at all of them."""
    paired = contrast(ends["all"], ends["terminal"])
    return {
        **{where: float(values.mean()) for where, values in ends.items()},
        "difference": paired.interval.as_dict(),
        "positive_share": paired.positive,
    }


def _queries(family: sgfi.MapFamily, x: Tensor, chosen: list) -> dict[str, Any]:
    """Inverses of each context's channel group: at the last position, and at every position."""
    pairs = []
    for place, channels in enumerate(chosen):
        asked = [sgfi.Query(channels=channels, coords=[x.shape[1] - 1]), sgfi.Query(channels=channels)]
        pairs.append([one.value for one in sgfi.sweep(family, x[place : place + 1], asked)])
    terminal, every = (torch.cat([pair[side] for pair in pairs]) for side in (0, 1))
    one, other = energy_profile(terminal), energy_profile(every)
    return {
        "cosine": float(pixel_cosine(terminal, every).mean()),
        "profile_cosine": float(pixel_cosine(one, other).mean()),
        "entropy_increase": bootstrap((entropy(other) - entropy(one)).numpy()).as_dict(),
        "terminal_mass": [float(part[:, -1].mean()) for part in (one, other)],
    }


def _middle(drops: Tensor) -> np.ndarray:
    """(B,): of several random groups the median one."""
    return (drops if drops.dim() == 1 else drops.median(1).values).double().numpy()


def _drop(drops: Tensor) -> dict[str, Any]:
    values = _middle(drops)
    return {**bootstrap(values).as_dict(), "values": np.round(values, 5).tolist()}

"""Where the terminal token's inverse has its energy in controlled contexts: references, controls, depths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.language_bench import (
    COMPARED,
    HEADLINE,
    LAYER,
    LAYERS,
    OUT,
    RESEEDED,
    SEEDS,
    Bench,
    Recipe,
    means,
    rounded,
)
from sgfi.evaluation import tokens
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.inversion import STAGES
from sgfi.language import energy_profile, matched_subsets, references, stacked

SEMANTIC = ("cue_minus_random", "cue", "target")
SYNTACTIC = ("agreement_minus_attractor",)


def routing(bench: Bench) -> dict[str, Any]:
    """Profiles of the terminal token in the two controlled benchmarks, by family and by reference."""
    words, templates = bench.polysemy, bench.agreement
    shown = {"polysemy": list(map(vars, words)), "agreement": list(map(vars, templates))}
    (OUT / "contexts.json").write_text(json.dumps(shown, indent=1) + "\n")
    subsets = matched_subsets(words)
    profiles = _profiles(bench)
    semantic = {name: tokens.semantic(pair[0], words, subsets) for name, pair in profiles.items()}
    syntactic = {name: tokens.syntactic(pair[1], templates) for name, pair in profiles.items()}

    def paired(one: str, other: str) -> dict[str, Any]:
        found = {key: tokens.paired(semantic[one][key], semantic[other][key], words) for key in SEMANTIC}
        return found | {key: tokens.paired(syntactic[one][key], syntactic[other][key], templates) for key in SYNTACTIC}

    finals = [f"{recipe.name} final" for recipe in HEADLINE]
    against = [(final, other) for final in finals for other in ("raw", final.replace("final", "first"), finals[0])]
    kept = ["raw", *(f"{recipe.name} {stage}" for recipe in HEADLINE for stage in STAGES[1:])]
    return {
        "contexts": {"polysemy": len(words), "agreement": len(templates)},
        "semantic": {name: tokens.semantic_summary(found, words) for name, found in semantic.items()},
        "syntactic": {name: tokens.syntactic_summary(found, templates) for name, found in syntactic.items()},
        "contrasts": {f"{one} minus {other}": paired(one, other) for one, other in against if one != other},
        "profiles": {name: [rounded(part) for part in profiles[name]] for name in kept},
    }


def _profiles(bench: Bench) -> dict[str, tuple[Tensor, Tensor]]:
    """By method, the profiles of both benchmarks' contexts."""
    inputs = tuple(bench.embed(stacked(contexts)) for contexts in (bench.polysemy, bench.agreement))
    last = [inputs[0].shape[1] - 1]
    found: dict[str, tuple[Tensor, ...]] = {}
    for recipe in bench.known(*COMPARED, *RESEEDED):
        family = bench.family(recipe)
        for stage in STAGES if not found else STAGES[1:] if recipe in HEADLINE else STAGES[2:]:
            name = "raw" if stage == "raw" else f"{recipe.name} {stage}"
            found[name] = tuple(tokens.profiles(family, x, last, stage) for x in inputs)
    graph, target = family.plan.graph, family.target
    found["direct global linear"] = tuple(map(bench.direct, inputs))
    found["attention"] = tuple(references.attention(bench.lm, x, LAYER) for x in inputs)
    found["gradient x input"] = tuple(references.gradient_times_input(graph, target, x) for x in inputs)
    if bench.given.integrated:
        found["integrated gradients"] = tuple(references.integrated_gradients(graph, target, x) for x in inputs)
    return found  # type: ignore[return-value]


def controls(bench: Bench) -> dict[str, Any]:
    """Geometry against content, a zero target, another query position, another calibration, every position."""
    words = bench.polysemy
    x = bench.embed(stacked(words))
    first = torch.arange(0, len(words), 3)  # the first context of every sense: 24 of them
    cues = [words[place].cues[0] for place in first.tolist()]
    found: dict[str, Any] = {recipe.name: _controls(bench, bench.family(recipe), x[first], cues) for recipe in HEADLINE}
    few = _queried_everywhere(bench, x[first])
    for recipe in bench.known(*(one for one in COMPARED if one not in HEADLINE)):
        matrix = tokens.position_matrix(bench.family(recipe), few)
        found[recipe.name] = {"future_energy": {"final": float(tokens.future_energy(matrix).mean())}}
    return {
        "pairs": len(first),
        "matrices": len(few),
        "families": found,
        "cross_seed": _seeds(bench),
    }


def _queried_everywhere(bench: Bench, x: Tensor) -> Tensor:
    return x[:: max(1, len(x) // bench.given.matrices)]


def _controls(bench: Bench, family: sgfi.MapFamily, a: Tensor, cues: list[int]) -> dict[str, Any]:
    last = a.shape[1] - 1
    blank = sgfi.invert(family, a, coords=[last], terminal=torch.zeros_like(tokens.target_state(family, a)))
    own = sgfi.invert(family, a, coords=[last]).value
    cue = torch.cat([sgfi.invert(family, a[i : i + 1], coords=[at]).value for i, at in enumerate(cues)])
    few = _queried_everywhere(bench, a)
    matrices = {stage: tokens.position_matrix(family, few, stage) for stage in STAGES}
    return {
        "geometry_swap": means(tokens.geometry_swap(family, a, a.roll(-2, 0), [last])),
        "zero_terminal_largest": float(blank.value.abs().max()),
        "cue_query": {
            "cosine": float(pixel_cosine(own, cue).mean()),
            "profile_cosine": float(pixel_cosine(energy_profile(own), energy_profile(cue)).mean()),
        },
        "future_energy": {stage: float(tokens.future_energy(m).mean()) for stage, m in matrices.items()},
        "future_energy_largest": {stage: float(tokens.future_energy(m).max()) for stage, m in matrices.items()},
        "position_matrix": {stage: rounded(m.mean(0)) for stage, m in matrices.items()},
    }


def _seeds(bench: Bench) -> dict[str, Any]:
    """Two calibrations of one recipe on other windows, on all controlled contexts."""
    x = torch.cat([bench.embed(stacked(contexts)) for contexts in (bench.polysemy, bench.agreement)])
    found: dict[str, Any] = {"windows": RESEEDED[0].windows, "contexts": len(x)}
    for recipe in bench.known(*RESEEDED):
        twin = replace(recipe, seed=SEEDS[0])
        pair = [tokens.inverses(bench.family(one), x, [x.shape[1] - 1]) for one in (twin, recipe)]
        found[twin.name] = means(tokens.agreement_of(*pair))
    return found


def layers(bench: Bench) -> dict[str, Any]:
    """The benchmarks at other depths: attention outputs of layers 2 to 12."""
    subsets = matched_subsets(bench.polysemy)
    found = {
        str(recipe.layer): {stage: _routed(bench, recipe, stage, subsets) for stage in STAGES}
        for recipe in bench.known(*LAYERS)
    }
    return {"windows": LAYERS[0].windows, "family": LAYERS[0].name, "layers": found}


def _routed(bench: Bench, recipe: Recipe, stage: str, subsets: Any) -> Mapping[str, Any]:
    words, templates = bench.polysemy, bench.agreement
    family = bench.family(recipe)
    one, other = (
        tokens.profiles(family, bench.embed(stacked(contexts)), [bench.given.length - 1], stage)
        for contexts in (words, templates)
    )
    return {
        "semantic": tokens.semantic_summary(tokens.semantic(one, words, subsets), words),
        "syntactic": tokens.syntactic_summary(tokens.syntactic(other, templates), templates),
    }

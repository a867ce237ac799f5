"""What the language measurements share: recipes of calibrated families, the model, the text, the windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sgfi
from sgfi.evaluation import tokens
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.language import (
    Context,
    Windows,
    agreement,
    draw,
    embedding_model,
    energy_profile,
    polysemy,
    references,
    token_plan,
    tokenise,
)

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
    stages: int = 2

    @property
    def name(self) -> str:
        kind = f"{self.family}-{self.children}{'.one' if self.stages == 1 else ''}"
        return f"{kind}-s{self.seed}-{self.part}{self.layer}-c{self.windows}"


RIDGE = 0.01
"""The paper's, for every family."""
PAPER = Recipe("paper", "true")
"""The paper's family as the paper calibrates it, on as many windows."""
OURS = Recipe("causal-first-apart", "honest", stages=1)
"""The recipe we recommend for token streams."""
HEADLINE = (PAPER, OURS)
COMPARED = (
    PAPER,
    Recipe("paper", "online"),
    Recipe("paper", "honest"),
    Recipe("causal", "honest"),
    replace(OURS, stages=2),
    OURS,
    Recipe("causal-per-position", "honest"),
    Recipe("causal+2", "honest"),
)
"""Every family on the same windows."""
RESEEDED = tuple(replace(recipe, seed=SEEDS[1]) for recipe in HEADLINE)
SMALL = (replace(OURS, windows=512),)
"""Ours on an eighth of the paper's windows."""
MLP = tuple(replace(recipe, part="mlp") for recipe in HEADLINE)
LAYERS = tuple(replace(PAPER, layer=layer) for layer in (2, 4, 6, 8, 10, 12))
EVERY = (*SMALL, *COMPARED, *RESEEDED, *MLP, *LAYERS)


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
        """Those that have been calibrated, each once."""
        return [recipe for recipe in dict.fromkeys(recipes) if (self.cache / recipe.name).is_dir()]

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

    @property
    def taken(self) -> list[Windows]:
        """Every calibration window of both seeds."""
        return [self.calibration(seed, self.given.windows) for seed in SEEDS]

    @cached_property
    def held_out(self) -> Windows:
        """Evaluation windows, disjoint by interval from every calibration window."""
        return draw(self.ids, 512, self.given.length, 7, self.taken)

    @cached_property
    def polysemy(self) -> list[Context]:
        return polysemy(self.loaded.tokenizer, self.given.length)

    @cached_property
    def agreement(self) -> list[Context]:
        return agreement(self.loaded.tokenizer, self.given.length)

    def direct(self, x: Tensor) -> Tensor:
        """(B, L) profile of the global linear map from the terminal feature, fitted on the calibration windows."""
        family = self.family(HEADLINE[0])
        seen = self.embed(self.calibration(SEEDS[0], self.given.windows).ids)
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
        family = sgfi.calibrate(plan, batches, RIDGE, recipe.children, stages=recipe.stages, checkpoint=partial)
        partial.rename(folder)
        return family


def means(found: dict[str, Any]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def rounded(values: Tensor) -> list:
    return np.round(values.numpy(), 5).tolist()

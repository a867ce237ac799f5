"""Runs a resolved experiment. Every finished unit of work is kept, so that an interrupted run resumes.

A unit is one measure of one variant (or of one ordered pair). Calibrated families are kept too, node by node, and
shared between experiments that use the same working folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from sgfi.experiments.cases import Bench, Case
from sgfi.experiments.declaration import CHOSEN, Experiment
from sgfi.experiments.ledger import digest
from sgfi.experiments.measures import ACROSS, MEASURES, PAIRS, Table
from sgfi.experiments.provenance import code_digest, provenance
from sgfi.experiments.results import Result, summarise
from sgfi.settings import check_keys, portable
from sgfi.storage import write_text


def run(
    experiment: Experiment,
    work: str | Path,
    *,
    only: Iterable[str] | None = None,
    command: str = "",
    progress: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Measure every variant. ``work`` keeps families and finished units; ``only`` names some of the variants."""
    labels = list(experiment.variants if only is None else only)
    check_keys(dict.fromkeys(labels), experiment.variants, "variants")
    work = Path(work)
    bench = Bench(work / "families", experiment.lpips_trunk, progress)
    units = _Units(work / "units", say)
    measured: dict[str, dict[str, Table]] = {}
    about: dict[str, Any] = {}
    cases: dict[str, Case] = {}
    start = time.perf_counter()
    for label in labels:
        case = bench.case(label, experiment.settings(label))
        for name, options in experiment.measures.items():
            measured.setdefault(name, {})[label] = units.take(name, MEASURES[name].take, options, case)
        about[label] = case.describe()
        if experiment.pairs:
            cases[label] = case
    for name, declared in experiment.pairs.items():
        options = {key: value for key, value in declared.items() if key != CHOSEN}
        for fitted, evaluated in product(cases.values(), repeat=2):
            if CHOSEN not in declared or [fitted.label, evaluated.label] in declared[CHOSEN]:
                table = units.take(name, PAIRS[name].take, options, fitted, evaluated)
                measured.setdefault(name, {})[f"{fitted.label} -> {evaluated.label}"] = table
    about |= {label: case.describe() for label, case in cases.items()}  # maps that only pairs asked for are there now
    for name, options in experiment.across.items():
        measured[name] = {"all variants": ACROSS[name].take(measured, **options)}
    tables = {
        name: {label: _summary(table, experiment.resamples) for label, table in variants.items()}
        for name, variants in measured.items()
    }
    seconds = round(time.perf_counter() - start, 1)
    return Result(_public(experiment.as_dict()), {**provenance(command), "seconds": seconds}, about, tables)


class _Units:
    """Finished units on disk, by what they depend on."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._say = folder, say

    def take(self, name: str, measure: Callable[..., Table], options: Mapping[str, Any], *cases: Case) -> Table:
        facts = {
            "measure": name,
            "options": dict(options),
            "variants": [case.label for case in cases],  # options may be given by variant
            # an image is crossed with another of its batch
            "batches": [case.evaluation.batches.batch_size for case in cases],
            "families": [case.key for case in cases],
            "evaluation": [case.evaluation.digest for case in cases],
            "trunk": bool(cases[0].trunk),
            "code": code_digest(),
        }
        file = self._folder / f"{digest(facts, 24)}.json"
        label = " -> ".join(case.label for case in cases)
        if file.is_file():
            self._say(f"{name} of {label}: kept from before")
            return json.loads(file.read_text(encoding="utf-8"))["table"]
        start = time.perf_counter()
        table = measure(*cases, **options)
        write_text(file, json.dumps({"facts": facts, "table": table}))
        self._say(f"{name} of {label}: {time.perf_counter() - start:.1f} s")
        return table


def _summary(table: Table, resamples: int) -> dict[str, Any]:
    return {row: {name: summarise(value, resamples) for name, value in scores.items()} for row, scores in table.items()}


def _public(setting: Any) -> Any:
    """A result file does not name the folders of a machine."""
    if isinstance(setting, Mapping):
        return {key: _public(value) for key, value in setting.items()}
    if isinstance(setting, list):
        return [_public(value) for value in setting]
    return portable(setting) if isinstance(setting, str) else setting

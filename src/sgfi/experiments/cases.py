"""One variant with its model, plan and samples, and its calibrated family once a measure needs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import sgfi
from sgfi.calibration.memory import peak, reset_peak
from sgfi.calibration.presets import preset_named
from sgfi.errors import DataError, PlanError
from sgfi.evaluation.metrics import Metric, alignment_metrics
from sgfi.experiments.ledger import digest
from sgfi.experiments.provenance import code_digest
from sgfi.experiments.sampling import Sample, draw
from sgfi.experiments.sections import LAYER, Sections
from sgfi.inputs.data import open_source
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.language import anatomy
from sgfi.storage import write_text


@dataclass(frozen=True, eq=False)
class Case:
    """What measures look at."""

    label: str
    loaded: LoadedModel
    plan: sgfi.Plan
    calibration: Sample
    evaluation: Sample
    options: Mapping[str, Any]
    """Of :func:`sgfi.calibrate`."""
    families: Path
    """Folder where calibrated families are kept, by key."""
    trunk: str | None = None
    progress: bool = False

    @cached_property
    def key(self) -> str:
        """Identifies the family: a digest of weights, plan, options, calibration inputs and the code that fits."""
        facts = {
            "weights": self.plan.graph.fingerprint,
            "plan": self.plan.description,
            "options": dict(self.options),
            "preprocessing": self.loaded.preprocessing and self.loaded.preprocessing.as_dict(),
            "data": self.calibration.digest,
            "code": code_digest(),
        }
        return digest(facts, 24)

    @cached_property
    def family(self) -> sgfi.MapFamily:
        """Calibrated now, resumed where an interrupted calibration stopped, or read back when it is finished."""
        folder, note = self.families / self.key, self._note
        if note.is_file():
            return replace(sgfi.load(folder, self.plan.graph, verify=False), plan=self.plan)
        reset_peak()
        start = time.perf_counter()
        family = sgfi.calibrate(
            self.plan, self.calibration.batches, checkpoint=folder, progress=self.progress, **self.options
        )
        facts = {
            "seconds": round(time.perf_counter() - start, 2),
            "peak_bytes": peak(),
            "schedule": dict(family.schedule),
        }
        write_text(note, json.dumps(facts))
        return family

    @property
    def facts(self) -> dict[str, Any]:
        """Seconds and peak memory of the calibration (of its last part, where it was interrupted)."""
        assert self.family is not None
        return self._noted

    @property
    def _note(self) -> Path:
        """Beside the folder of a finished family."""
        return self.families / f"{self.key}.json"

    @property
    def _noted(self) -> dict[str, Any]:
        return json.loads(self._note.read_text(encoding="utf-8"))

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        return alignment_metrics(self.loaded.preprocessing, self.trunk)

    def describe(self) -> dict[str, Any]:
        """Provenance of one variant, JSON-able; how its calibration was cut where a measure has asked for the maps."""
        node = self.plan.boundary[self.plan.target].node
        record = self.loaded.provenance
        if record["weights"] not in ("pretrained", "none"):
            record["weights"] = Path(record["weights"]).name
        record["spec"] = Path(record["spec"]).name
        return {
            "model": {**record, "class": self.plan.graph.model_class, "fingerprint": self.plan.graph.fingerprint},
            "target": self.plan.target,
            "shape": ["B" if size is None else size for size in node.shape],
            "channel_axis": node.channel_axis,
            "coord_axes": list(node.coord_axes),
            "boundaries": self.plan.mode,
            "fitted_nodes": len(self.plan.fitted),
            "calibration": {
                "options": dict(self.options),
                **self.calibration.as_dict(),
                **({"schedule": self._noted.get("schedule", {})} if self._note.is_file() else {}),
            },
            "evaluation": self.evaluation.as_dict(),
            "family": self.key,
        }


class Bench:
    """Builds cases; a model and its graph are kept while neighbouring variants share them."""

    def __init__(self, families: Path, trunk: str | None = None, progress: bool = False) -> None:
        self._families, self._trunk, self._progress = families, expanded(trunk), progress
        self._model: tuple[str, LoadedModel, sgfi.TensorGraph] | None = None
        families.mkdir(parents=True, exist_ok=True)

    def case(self, label: str, sections: Sections) -> Case:
        loaded, graph = self._loaded(sections)
        data = sections.data
        if data.calibration is None:
            raise DataError("a data set", "none", "Name one with --data, or data.calibration in the file.")
        source = open_source(str(expanded(data.calibration)), loaded)
        held_out = source if data.evaluation is None else open_source(str(expanded(data.evaluation)), loaded)
        fit, evaluation = draw(
            source,
            held_out,
            loaded,
            counts=(data.calibration_count, data.evaluation_count),
            seeds=(data.calibration_seed, data.evaluation_seed),
            batch=data.batch,
            mirror=data.mirror,
        )
        plan = sgfi.plan(graph, **_plan_options(graph, sections.plan))
        plan = preset_named(sections.calibration.get("preset", "paper")).refine(plan)
        return Case(
            label, loaded, plan, fit, evaluation, sections.calibration, self._families, self._trunk, self._progress
        )

    def _loaded(self, sections: Sections) -> tuple[LoadedModel, sgfi.TensorGraph]:
        model = sections.model
        if not model.spec:
            raise DataError("a model", "none", "Name one with --model, or model.spec in the file.")
        key = json.dumps(model.as_dict())
        if self._model is None or self._model[0] != key:
            spec = str(expanded(model.spec))
            loaded = load_model(spec, expanded(model.weights), size=model.size, strict=not model.partial_weights)
            self._model = (key, loaded, sgfi.capture(loaded.model, loaded.example))
        return self._model[1], self._model[2]


def _plan_options(graph: sgfi.TensorGraph, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Target and boundaries by name: of a language model's ``layer`` and ``part``, or the recipe's own target.

    A target that is a number is that boundary of the recipe: 0 the input, 1 the first after it, -1 the recipe's target.
    """
    options = {key: value for key, value in declared.items() if key not in LAYER}
    if isinstance(options.get("target"), int):
        options["target"] = boundary_names(sgfi.plan(graph), [options["target"]])[0]
    if declared.get("layer") is None:
        if options.get("target") is None and options.get("boundaries") != "stage":
            options["target"] = sgfi.plan(graph).target
        return options
    if options.get("target") is not None or options.get("boundaries", "stage") != "stage":
        got = f"{options['target']!r} and {options['boundaries']!r} too"
        raise DataError("a layer alone, or a target and boundaries", got, "Remove plan.layer or the others.")
    layer, blocks = declared["layer"], anatomy(graph)
    target = blocks.tensor(layer, declared.get("part", "attention"))
    return {**options, "target": target, "boundaries": [blocks.tensor(below) for below in range(2, layer, 2)]}


def boundary_names(plan: sgfi.Plan, depths: Sequence[int | str]) -> list[str]:
    """Tensors by name, or boundaries of a plan by number: 0 the input, 1 the first after it, -1 the target."""
    known = plan.boundaries
    for depth in depths:
        if isinstance(depth, int) and not -len(known) <= depth < len(known):
            raise PlanError(
                f"a boundary from 0 to {len(known) - 1}",
                str(depth),
                "sgfi plan lists them; the measure or plan.target can name others.",
            )
    return [known[depth] if isinstance(depth, int) else plan.graph.nodes.canonical(depth) for depth in depths]


def expanded(path: str | None) -> str | None:
    """``$NAME/...`` with the environment's NAME, so that files need not know where weights and images lie."""
    if path is None or not path.startswith("$"):
        return path
    name, slash, rest = path[1:].partition("/")
    if name not in os.environ:
        raise DataError(f"the environment variable {name}", "none", f"Set it: {path!r} is read from there.")
    return os.environ[name] + slash + rest

"""From batches of inputs to a map family: closed-form fits of every node, streamed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import torch
from typing_extensions import Unpack

from sgfi.boundaries import Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.child_states import child_states
from sgfi.calibration.curve import checked_until, learning_curve
from sgfi.calibration.lengths import held_out_lengths
from sgfi.calibration.passes import fit_nodes
from sgfi.calibration.presets import Preset, preset_named
from sgfi.calibration.processes import ProcessGroup, join_group
from sgfi.calibration.progress import Progress
from sgfi.calibration.schedule import Run
from sgfi.calibration.settings import FitSettings, current_children
from sgfi.calibration.tangents import channel_means
from sgfi.errors import CalibrationError, did_you_mean
from sgfi.graph import full_precision
from sgfi.inversion import MapFamily
from sgfi.storage.checkpoint import Checkpoint, NodeMaps
from sgfi.storage.manifest import as_folder


class Further(TypedDict, total=False):
    """What else changes the maps."""

    length: bool | None
    until: float | None


class Running(TypedDict, total=False):
    """How a calibration runs; none of it changes the maps."""

    memory: int | str | None
    checkpoint: str | Path | None
    progress: bool
    provenance: Mapping[str, Any] | None
    distributed: bool


class Options(Further, Running, total=False):
    """All keywords of :func:`calibrate` that are not written out in it."""


RUNNING = Running(memory=None, checkpoint=None, progress=True, provenance=None, distributed=False)
"""The defaults."""


def calibrate(
    plan: Plan,
    batches: Iterable,
    ridge: float | str | None = None,
    children: str | None = None,
    *,
    preset: str | Preset = "paper",
    stages: int | str | None = None,
    on: str | None = None,
    **more: Unpack[Options],
) -> MapFamily:
    """Fit every map of the plan in closed form.

    ``batches`` is read several times and must give the same inputs each time: a list of tensors or a DataLoader
    without shuffling (a tuple's first element counts).

    ``preset`` says how: ``"paper"`` (true children, ridge 0.01, two stages) or ``"aligned"``, what was measured to
    align best with the input (online children, ridge and stages ``"auto"``, lengths; a plain recipe plan also gets the
    recipe's stem opened and neighbouring bins tied, and the family's plan is that one). Single options override it:

    - ``children``: ``"true"`` fits each node on the true activations of its children; ``"online"`` fits deepest node
      first on the repaired full-target states that inversion will hand it, in both sources, while the regression
      targets stay ``H_v`` and ``H_v - y0``; ``"cross-fitted"`` does the same with leave-one-out states, so that no
      state comes from maps that saw its sample.
    - ``ridge``: relative, or with online or cross-fitted children ``"auto"``: chosen per node, map and group of bins by
      leave-one-out, with shrinkage of the groups toward one map of all of them.
    - ``stages``: the maps per node, ``G_v`` and ``stages - 1`` corrections, or with online or cross-fitted children
      ``"auto"``: every eighth sample is held out of all fits, and maps are added as long as the error of these falls.
    - ``on``: ``"states"`` fits maps that recover the states ``H`` (the paper); ``"tangents"`` the same maps on tangents
      ``J dx`` at every input, dx being the difference of two *other* inputs of its batch, of which there must be three
      or more; ``"tangents<k>"`` takes k of them at every input. Such a family answers for ``H(x) - H(mu)``, as the
      natural inverse does, with the mean mu of the inputs; its values are deviations from mu (``family.origin``).
    - ``length``: every eighth sample is held out of all fits, and the states of an inversion are multiplied by the
      numbers that bring them nearest to the true states of these, for every target its own (``family.lengths``). Maps
      alone leave inverses of deep targets too short. Directions do not change.
    - ``until``: samples are taken in the order of the batches until a doubling changes the error of held-out samples by
      less than this share, and no more. Decided before the fit on the first maps of true children, also where children
      are online or cross-fitted, whose nodes need all samples one after the other. ``family.curve`` has the errors.

    How it runs, by keyword:

    - ``memory`` bounds the working memory (moments, unfinished maps, buffered states) beside the model's own forward;
      nodes are scheduled into as many passes over the data as it takes.
    - ``checkpoint`` names a folder where finished nodes are kept: an interrupted calibration resumes there, finished
      maps leave memory, and the folder can be loaded when complete. Without it finished maps stay in memory beyond the
      budget.
    - ``progress`` shows a bar; ``provenance`` is kept in the manifest.
    - ``distributed`` shares the work with the other processes of the job (``torchrun``): each is given the same
      arguments, reads its share of the batches, solves its share of the groups and returns the same family. ``memory``
      is then per process, and a checkpoint folder must be visible to all.
    """
    if not isinstance(plan, Plan):
        raise CalibrationError("a plan", type(plan).__name__, "Make one with sgfi.plan(graph, ...).")
    chosen = preset_named(preset)
    given = {"ridge": ridge, "children": current_children(children), "maps": stages, "on": on}
    length = more.pop("length", None)
    given["length"] = False if length is None and on not in (None, "states") else length  # tangents have none
    settings = replace(chosen.settings, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    refined = chosen.refine(plan)
    resolved = {"ridge": settings.ridge, "children": settings.children, "stages": settings.maps}
    resolved |= {"on": settings.on} if settings.tangents else {}
    resolved |= {"length": True} if settings.length else {}
    resolved |= {"until": until} if (until := more.get("until")) is not None else {}
    record = {"preset": chosen.name, **resolved, "refined": refined is not plan}
    return fit(settings, refined, batches, record, **more)  # type: ignore[misc]


def _with_options(signature: inspect.Signature) -> inspect.Signature:
    """The signature with the keywords of :class:`Options` written out."""
    own = list(signature.parameters.values())[:-1]
    defaults: dict[str, Any] = dict.fromkeys(Further.__annotations__) | {**RUNNING}
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=own) for name, own in defaults.items()]
    return signature.replace(parameters=[*own, *more])


calibrate.__signature__ = _with_options(inspect.signature(calibrate))  # type: ignore[attr-defined]


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
@full_precision()
def fit(
    settings: FitSettings,
    plan: Plan,
    batches: Iterable,
    record: Mapping[str, Any] | None = None,
    until: float | None = None,
    **running: Unpack[Running],
) -> MapFamily:
    """Fit the plan as the settings say; ``record`` is kept as the family's settings.

    For ablations: maps fitted with another seed than the method's own need that seed at inversion too.
    """
    for name in running:
        if name not in RUNNING:
            raise TypeError(
                f"calibrate() got an unexpected keyword argument {name!r}. "
                + (did_you_mean(name, inspect.signature(calibrate).parameters) or f"Known are {list(RUNNING)}.")
            )
    options: Running = {**RUNNING, **running}
    settings.check_plan(plan)
    provenance = _plain_json(options["provenance"] or {})
    folder = as_folder(options["checkpoint"]) if options["checkpoint"] is not None else None
    group = join_group(options["distributed"], plan.graph.device)
    until = checked_until(until, settings, group.size)
    data = Batches(plan, batches, group, repeats=settings.tangents or 1)
    curve = None if until is None else learning_curve(plan, settings, data, until)
    if curve is not None and curve.batches is not None:
        data = data.first(curve.batches)
    run = Run.of(plan, settings, data, group, options["memory"])
    group.check_agreement(run.signature)
    writes = not group.rank
    checkpoint = group.rank_zero_first(
        lambda: None if folder is None else Checkpoint(folder, run.signature, plan, writes=writes)
    )
    with closing(run.buffer), checkpoint or nullcontext():
        mean = channel_means(data, plan.boundary["input"].node, group) if settings.tangents else None
        finished, schedule = _fit_rounds(run, checkpoint, folder, options["progress"] and not group.rank)
        family = MapFamily(
            plan=plan,
            maps={name: finished[name][0] for name in plan.fitted},
            ridge=settings.ridge,
            children=settings.children,
            samples=run.split.fitted,
            fingerprint=run.fingerprint,
            diagnostics={name: finished[name][1] for name in plan.fitted},
            provenance=provenance,
            settings=dict(record or {}),
            schedule=schedule,
            mean=mean,
        )
        if settings.length:
            family = replace(family, lengths=held_out_lengths(run, family))
        if curve is None and group.size == 1:
            curve = learning_curve(plan, settings, data)
        family = replace(family, curve=curve.record if curve is not None else {})
        if checkpoint:
            group.rank_zero_first(lambda: checkpoint.finish(family))
    return family


def _fit_rounds(
    run: Run, checkpoint: Checkpoint | None, folder: Path | None, shown: bool
) -> tuple[dict[str, NodeMaps], Mapping[str, Any]]:
    """Every node's maps, resumed from the checkpoint where it holds some, and how the work was cut."""
    states = child_states(run, folder)
    stored = _in_every_process(run.group, checkpoint.finished()) if checkpoint else {}
    passes, memory = run.memory.passes(stored), run.memory
    with Progress(shown, passes, len(run.data.own), len(run.plan.fitted), len(stored)) as progress:
        finished = states.begin(stored, progress)
        progress.expect(memory.passes(finished), len(finished))
        resumed = list(finished)
        for names in memory.rounds(finished):
            fitted = fit_nodes(run, names, states, progress)
            finished |= run.group.rank_zero_first(partial(_kept, checkpoint, fitted))
            states.end(names)
            progress.finished(len(names))
    if checkpoint and len(resumed) == len(finished):  # nothing was left to do: the folder has its own record
        return finished, checkpoint.schedule
    return finished, memory.record(resumed, progress.passes)


def _plain_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(provenance)))
    except (TypeError, ValueError) as error:
        raise CalibrationError(
            "provenance that JSON can hold", str(error), "Use plain numbers, text, lists and mappings."
        ) from error


def _in_every_process(group: ProcessGroup, stored: dict[str, NodeMaps]) -> dict[str, NodeMaps]:
    """The stored nodes that every process can read."""
    names = set.intersection(*group.all_gather(set(stored)))
    return {name: maps for name, maps in stored.items() if name in names}


def _kept(checkpoint: Checkpoint | None, fitted: dict[str, NodeMaps]) -> dict[str, NodeMaps]:
    return fitted if checkpoint is None else {name: checkpoint.keep(name, *maps) for name, maps in fitted.items()}

"""Sufficient statistics of a fit: what one map of every node is solved from, summed over samples.

Sums add. The moments of two sets of samples are together those of all of them, wherever and whenever they were made, as
long as the model, the plan and everything that the map reads are the same. What a map reads decides what that means:

first map
    reads ``R = sum J* H_u / C_u`` and recovers ``H``: nothing in it was fitted. Its moments can be merged freely and
    solved again with any ridge, any coarser partition, any operator that needs no more than was summed.
correction map
    reads ``C = sum J* (H_u - J y0)`` with ``y0 = G R``. For one sample that is linear in G, but ``J* J`` is another
    operator at every sample, so ``sum C C*`` holds G twice inside the sum: no few sums give it for every G. Its
    moments belong to one G. Shards agree on G first (merge and solve the first maps), then gather the correction's on
    it. They can be solved again with any ridge; another G needs another pass over the data.

Repaired child states (``children="online"``) are estimates by maps that were fitted on all of the data, deeper nodes
first. A node's moments exist only after the deeper nodes are solved over all shards: a barrier at every node, which
``calibrate(distributed=True)`` has and files between machines would need once a node. They are refused here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sgfi.boundaries import Boundary, Plan, plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.child_states import child_states
from sgfi.calibration.passes import check_range, energies, node_moments, solve_node
from sgfi.calibration.processes import join_group
from sgfi.calibration.progress import Progress
from sgfi.calibration.schedule import Run
from sgfi.calibration.settings import FitSettings
from sgfi.calibration.tangents import channel_means
from sgfi.errors import CalibrationError
from sgfi.graph import full_precision
from sgfi.graph.raw import raw_bytes
from sgfi.inversion import MapFamily
from sgfi.spectral import Moments, WienerMap

DIGEST = 16
"""Bytes that a sample is known by."""


@dataclass(frozen=True, eq=False)
class MomentSet:
    """The moments of one map of every node of a plan, with the samples they were summed over."""

    plan: Plan
    moments: Mapping[str, Moments]
    """Every group of every fitted node."""
    samples: frozenset[bytes]
    """Digests of the inputs."""
    number: int = 1
    """Which of a node's maps: 1 is the first."""
    after: str = ""
    """Digest of the maps before it; empty for the first."""
    on: str = "states"
    fingerprint: str = ""
    """Of the model's weights."""
    mean: tuple[float, ...] | None = None
    """The mean input of tangents, by channel."""
    provenance: Sequence[Mapping[str, Any]] = field(default=())
    """Where each merged part came from."""

    @property
    def count(self) -> int:
        """Samples that were summed; of tangents, tangents."""
        return next(iter(self.moments.values())).count

    def merge(self, *others: MomentSet) -> MomentSet:
        """The moments of all samples; refused for another model, plan, map or for samples that are in both."""
        merged = replace(self, moments={name: own.copy() for name, own in self.moments.items()})
        for other in others:
            merged._check_mergeable(other)
            for name, own in merged.moments.items():
                own.merge(other.moments[name])
            merged = replace(
                merged,
                samples=merged.samples | other.samples,
                mean=_mixed_mean(merged, other),
                provenance=(*merged.provenance, *other.provenance),
            )
        return merged

    def _check_mergeable(self, other: MomentSet) -> None:
        facts = {
            "the same model": (self.fingerprint[:16], other.fingerprint[:16]),
            "the same plan": (_described(self.plan), _described(other.plan)),
            "moments of the same map of a node": (self.number, other.number),
            "moments on the same earlier maps": (self.after[:16], other.after[:16]),
            "moments of the same kind": (self.on, other.on),
        }
        for wanted, (own, given) in facts.items():
            if own != given:
                got = f"{own} and {given}" if len(f"{own}{given}") < 200 else "two that differ"
                raise CalibrationError(f"{wanted} to merge", got, "Gather them again for one model and plan.")
        if self.samples & other.samples:
            got = f"{len(self.samples & other.samples)} of {len(other.samples)} in both"
            raise CalibrationError("samples that are not counted yet", got, "Gather each sample once.")

    def solve(
        self, ridge: float | str = 0.01, partition: Any = None, operator: Any = None, after: MapFamily | None = None
    ) -> MapFamily:
        """A family with this map: ``after`` with one more map a node, or first maps alone. No data is read.

        ``partition`` and ``operator`` are as for :func:`sgfi.plan`: of a first map any that the sums give (larger
        groups; diagonal from full matrices); a correction map has those of the maps before it.
        """
        if ridge == "auto":
            todo = "Give a number: leave-one-out needs the samples themselves."
            raise CalibrationError("a ridge that sums can be solved with", "'auto'", todo)
        settings = FitSettings(ridge=ridge, children="true", maps=self.number, on=self.on)
        self._check_after(after)
        planned = self._replanned(partition, operator)
        maps: dict[str, tuple[WienerMap, ...]] = {}
        diagnostics: dict[str, list[dict[str, float]]] = {}
        for name in planned.fitted:
            boundary = planned.boundary[name]
            moments = _converted(self.moments[name], self.plan.boundary[name], boundary)
            if self.number == 1:
                check_range(name, moments)
            solution = solve_node(boundary, moments, settings.ridge)
            wiener = WienerMap(boundary.basis, boundary.partition, boundary.operator, solution.weights)
            earlier = ((), []) if after is None else (after.maps[name], after.diagnostics.get(name, []))
            maps[name] = (*earlier[0], wiener)
            diagnostics[name] = [*earlier[1], {**energies(moments), "ridge": float(solution.ridge.median())}]
        record = {"ridge": ridge, "children": "true", "stages": self.number, "from": "moments"}
        return MapFamily(
            plan=planned,
            maps=maps,
            ridge=ridge,
            children="true",
            samples=self.count,
            fingerprint=self.fingerprint,
            diagnostics=diagnostics,
            provenance=_joint_provenance(self.provenance),
            settings=record | ({"on": self.on} if settings.tangents else {}),
            mean=self.mean,
        )

    def _check_after(self, after: MapFamily | None) -> None:
        wanted = "no earlier maps" if self.number == 1 else f"the {self.number - 1} maps a node they were gathered on"
        if after is None and self.number == 1:
            return
        if after is None or self.number == 1 or digest_of(after) != self.after:
            got = "none" if after is None else f"{after!r} with other maps" if self.number > 1 else repr(after)
            raise CalibrationError(f"{wanted} to solve these moments", got, "Name the family that was given then.")

    def _replanned(self, partition: Any, operator: Any) -> Plan:
        """The plan with another partition or operator."""
        if partition is None and operator is None:
            return self.plan
        if self.number > 1:
            todo = "Solve the first maps with them, and gather the correction's moments on those."
            got = f"partition {partition!r}, operator {operator!r}"
            raise CalibrationError("the partition and operator of the earlier maps for a correction map", got, todo)
        own = self.plan.boundary
        changed = plan(
            self.plan.graph,
            self.plan.target,
            [name for name in own if name != self.plan.target],
            {name: boundary.node.channel_axis for name, boundary in own.items()},  # type: ignore[misc]
            {name: boundary.partition.groups for name, boundary in own.items()} if partition is None else partition,
            {name: boundary.operator.name for name, boundary in own.items()} if operator is None else operator,
        )
        return replace(changed, mode=self.plan.mode)


def gather_moments(
    plan: Plan,
    batches: Iterable,
    after: MapFamily | None = None,
    *,
    on: str = "states",
    children: str = "true",
    memory: int | str | None = None,
    progress: bool = True,
) -> MomentSet:
    """The moments of the next map of every node: of the first maps, or of the ones that follow those of ``after``.

    The same pass as a calibration's, without a solve; sums are in double precision. ``on`` is as in
    :func:`sgfi.calibrate`. Only true child states have moments that add (see the module's words on ``online``).
    """
    if children != "true":
        raise CalibrationError(
            'true child states (children="true") for moments that add',
            repr(children),
            "Repaired states need the deeper nodes solved over all data first, node by node: "
            "use sgfi.calibrate(..., distributed=True).",
        )
    settings = FitSettings(children="true", maps=1 if after is None else after.stages + 1, on=on)
    settings.check_plan(plan)
    if after is not None:
        _check_continues(plan, after, settings)
    return _gathered(plan, batches, after, settings, memory, progress)


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
@full_precision()
def _gathered(
    plan: Plan, batches: Iterable, after: MapFamily | None, settings: FitSettings, memory: Any, progress: bool
) -> MomentSet:
    group = join_group(False, plan.graph.device)
    data = Batches(plan, batches, group, repeats=settings.tangents or 1)
    run = Run.of(plan, settings, data, group, memory)
    run = replace(run, memory=replace(run.memory, double=True))
    maps: Mapping[str, tuple[WienerMap, ...]] = dict.fromkeys(plan.fitted, ()) if after is None else after.maps
    states, rounds = child_states(run, None), run.memory.rounds(())
    passes = sum(max(len(run.memory.chunks(name)) for name in names) for names in rounds)
    pieces: dict[str, list[Moments]] = {name: [] for name in plan.fitted}
    with closing(run.buffer), Progress(progress, passes, len(data.own), len(plan.fitted)) as shown:
        states.begin({}, shown)
        for names in rounds:
            for name, moments in node_moments(run, names, maps, states, shown, f"moments of map {settings.maps}"):
                pieces[name].append(moments)
            states.end(names)
            shown.finished(len(names))
        mean = channel_means(data, plan.boundary["input"].node, group) if settings.tangents else None
    return MomentSet(
        plan,
        {name: Moments.joined(own) for name, own in pieces.items()},
        frozenset(_sample_digests(data)),
        settings.most_maps,
        "" if after is None else digest_of(after),
        settings.on,
        run.fingerprint,
        mean,
    )


def _check_continues(plan: Plan, after: MapFamily, settings: FitSettings) -> None:
    """Maps of the same plan, model and kind."""
    kind = "states" if after.mean is None else "tangents"
    facts = {
        "earlier maps of the same plan": (_described(plan), _described(after.plan)),
        "earlier maps of the same model": (plan.graph.fingerprint[:16], after.fingerprint[:16]),
        'earlier maps fitted with children="true"': ("true", after.children),
        "earlier maps of the same kind": ("tangents" if settings.tangents else "states", kind),
    }
    for wanted, (own, given) in facts.items():
        if own != given:
            got = f"{given} where {own} is meant" if len(f"{own}{given}") < 200 else "maps of another plan"
            raise CalibrationError(wanted, got, "Plan as the earlier maps were planned: family.plan.")


def digest_of(family: MapFamily) -> str:
    """Of all maps: moments gathered on them belong to these."""
    digest = hashlib.sha256()
    for name in family.plan.fitted:
        for wiener in family.maps[name]:
            for key, tensor in sorted(wiener.tensors().items()):
                digest.update(f"{name} {key} {tuple(tensor.shape)}".encode())
                digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def _sample_digests(data: Batches) -> Iterator[bytes]:
    for _, x in data:
        for sample in x:
            yield hashlib.sha256(raw_bytes(sample)).digest()[:DIGEST]


def _converted(moments: Moments, old: Boundary, new: Boundary) -> Moments:
    """What another partition or operator would have summed; an error where the sums do not give it."""
    name, wanted = new.name, f"{new.operator.name} with {new.partition.count} groups"
    todo = "Gather the moments with a plan of this operator and partition, or of a full one with single bins."
    if new.width != old.width or new.operator.causal != old.operator.causal or (new.operator.full and not moments.full):
        raise CalibrationError(f"sums that give {wanted} at {name!r}", f"those of {old.operator.name}", todo)
    moments = moments if new.operator.full else moments.channelwise()
    if torch.equal(old.partition.groups, new.partition.groups):
        return replace(moments.copy(), partition=new.partition)
    try:
        return moments.coarsened(new.partition)
    except ValueError as error:
        raise CalibrationError(f"groups at {name!r} that are unions of those summed", str(error), todo) from error


def _described(planned: Plan) -> Any:
    """What moments depend on: not how boundaries were chosen, nor the capacity of the target, which has no map."""
    return [
        entry if entry["name"] != planned.target else {"name": entry["name"], "shape": entry["shape"]}
        for entry in planned.description["boundaries"]
    ]


def _mixed_mean(first: MomentSet, second: MomentSet) -> tuple[float, ...] | None:
    if first.mean is None or second.mean is None:
        return None
    counts = torch.tensor([first.count - second.count, second.count], dtype=torch.float64)  # merged already
    means = torch.tensor([first.mean, second.mean], dtype=torch.float64)
    return tuple(((counts / counts.sum()) @ means).tolist())


def _joint_provenance(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parts', where there is one; otherwise the model of the first, and all data."""
    if len(parts) == 1:
        return dict(parts[0])
    data = [part["data"] for part in parts if "data" in part]
    models = [part["model"] for part in parts if "model" in part]
    return ({"model": models[0]} if models else {}) | ({"data": {"parts": data}} if data else {})

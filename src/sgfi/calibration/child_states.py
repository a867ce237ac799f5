"""Which child states a node is fitted on: true activations, repaired states, or honest (cross-fitted) ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sgfi.calibration.progress import Progress
from sgfi.calibration.schedule import Job
from sgfi.calibration.spill import Carry
from sgfi.derivatives import Linearisation, LocalMap
from sgfi.errors import StoreError
from sgfi.inversion.update import estimates, mean_seed, walk
from sgfi.spectral import Samples, Solution, WienerMap, wide

Maps = Mapping[str, Sequence[WienerMap]]
JUDGED = 64
"""Samples, or the whole batches that hold so many, which tell what a map misses where nothing else hangs on it."""


class Missed(NamedTuple):
    """Mean energy of a sample's target that a map leaves."""

    before: float
    after: float
    """Of a sample that the map has not seen: one held out, or one whose own share in the map is taken off."""
    seen: float
    """Of the samples that it was fitted to."""


class TrueChildren:
    """The paper's calibration: true activations, nodes independent of each other.

    Also the common ground of the other two: what a strategy answers while a node is fitted.
    """

    whiten = False
    """Whether solves must keep what tells a sample's leverage."""
    room = 0
    """Bytes for first sources, which every later stage would pull back again."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], Tensor] = {}

    def start(self, finished: Maps, bar: Progress) -> None:
        """Before the first node is fitted."""

    def known(self, active: Iterable[str], place: int) -> dict[str, Tensor]:
        """True states of the nodes being fitted, where they are kept: the forward goes on from there."""
        return {}

    def states(self, point: Linearisation, place: int, names: tuple[str, ...]) -> list[Tensor]:
        return [point.values[name] for name in names]

    def estimate(
        self, place: int, name: str, local: LocalMap, states: list[Tensor], seeds: list[Tensor], maps: tuple
    ) -> Tensor | None:
        """The node's state after the maps it has so far."""
        first = self._first.get((name, place))
        return next(reversed([*estimates(local, states, seeds, maps, first=first)]), None)

    def observed(self, place: int, name: str, found: Tensor, target: Tensor) -> None:
        """A source was taken, and this is what the next map is to make of it."""
        size = found.numel() * found.element_size()
        if (name, place) not in self._first and size <= self.room:
            self._first[name, place] = found
            self.room -= size

    def samples(self, name: str) -> Samples:
        """The spectra of all sources and targets of the pass, where they are kept."""
        return ()

    def solved(self, name: str, wiener: WienerMap, solution: Solution) -> Missed | None:
        """A map was solved; what it leaves, where known."""
        return None

    def accept(self, name: str) -> None:
        """The solved map stays."""

    def keep(self, wave: list[str]) -> None:
        """The wave's nodes have all their maps, which are about to be kept."""

    def finish(self, wave: list[str]) -> None:
        """The wave's maps are kept."""
        self.room += sum(found.numel() * found.element_size() for found in self._first.values())
        self._first.clear()

    def close(self) -> None:
        """Nothing more is fitted, done or interrupted."""


class OnlineChildren(TrueChildren):
    """Repaired full-target states of the children, carried per batch in memory or, beyond the budget, on disk.

    Nodes are fitted one by one, and each would need the model's forward up to it; true states that fit into the budget
    are kept from the first pass, the deepest nodes' first, which are the smallest and the furthest from the input.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._plan = job, job.plan
        self._kept: tuple[str, ...] = ()
        self.whiten = self.whiten or job.ridge == "auto"
        self._tells = self.whiten or job.selective
        self._carry = Carry(job.spare())
        self._last_reader = {child: name for name in reversed(job.plan.fitted) for child in job.plan.children(name)}

    def start(self, finished: Maps, bar: Progress) -> None:
        """The target's states, and on resuming those of every finished node, in one reverse pass per batch."""
        plan = self._plan
        needed = self._needed(finished)
        frontiers = {name: plan.children(name) for name in finished}
        self._kept = self._affordable(finished)
        for place, x in bar.batches(self._job.data, "starting states"):
            point = Linearisation(plan.graph, frontiers, x, keep=[plan.target, *self._kept])
            self._keep_true(point, place)
            top = point.values[plan.target]
            if plan.target in needed:
                self._carry.put(plan.target, place, top)
            for update in walk(point, plan.dag, finished, top, lambda y, name: mean_seed(y, plan.boundary[name])):
                if update.name in needed:
                    self._carry.put(update.name, place, update.state)

    def _affordable(self, finished: Collection[str]) -> tuple[str, ...]:
        """The nodes still to be fitted whose true states are kept: in half of the room, the rest is for others."""
        data, plan = self._job.data, self._plan
        samples, room, found = sum(data.sizes[place] for place in data.places), self._job.spare() // 2, []
        for name in reversed(plan.fitted):
            room -= samples * prod(plan.boundary[name].basis.shape) * plan.graph.input.dtype.itemsize
            if room < 0 or name == "input":
                break
            if name not in finished:
                found.append(name)
        return tuple(found)

    def _keep_true(self, point: Linearisation, place: int) -> None:
        for name in self._kept:
            self._carry.put(_true(name), place, point.values[name])

    def known(self, active: Iterable[str], place: int) -> dict[str, Tensor]:
        return {name: self._carry.get(_true(name), place) for name in active if name in self._kept}

    def _needed(self, finished: Collection[str]) -> set[str]:
        """The finished nodes, and the target, whose states the unfinished ones will ask for."""
        plan = self._plan
        asked = {child for name in plan.fitted if name not in finished for child in plan.children(name)}
        return asked & {*finished, plan.target}

    def states(self, point: Linearisation, place: int, names: tuple[str, ...]) -> list[Tensor]:
        return [self._carry.get(name, place) for name in names]

    def estimate(
        self, place: int, name: str, local: LocalMap, states: list[Tensor], seeds: list[Tensor], maps: tuple
    ) -> Tensor | None:
        return self._carry.get(name, place) if maps else None

    def observed(self, place: int, name: str, found: Tensor, target: Tensor) -> None:
        self._carry.put(_source(name), place, found)
        if self._tells:
            self._carry.put(_target(name), place, target)

    def samples(self, name: str) -> Samples:
        return _Again(lambda: self._spectra(name))

    def _spectra(self, name: str) -> Iterator[tuple[Tensor, Tensor]]:
        boundary = self._plan.boundary[name]
        for place in range(len(self._job.data.sizes)):
            found, target = (
                self._from_reader(key, name, place)[self._job.fits(place)] for key in (_source(name), _target(name))
            )
            if len(found):
                yield boundary.reads(found), boundary.basis.analyse(target)

    def _from_reader(self, key: str, name: str, place: int) -> Tensor:
        """What is carried for a batch, in every process."""
        if place in self._job.data.places:
            return self._job.team.spread(place, self._carry.get(key, place))
        graph, shape = self._plan.graph, (self._job.data.sizes[place], *self._plan.boundary[name].basis.shape)
        return self._job.team.spread(place, torch.empty(shape, dtype=graph.input.dtype, device=graph.device))

    def solved(self, name: str, wiener: WienerMap, solution: Solution) -> Missed | None:
        """Advance every batch's estimate by the new map; no derivative is needed again."""
        sums = torch.zeros(3, 2, dtype=wide(torch.float32, "cpu"))  # before, after, seen: energy and samples
        telling = self._telling()
        for place in self._job.data.places:
            observed = self._carry.get(_source(name), place)
            step = wiener(observed)
            if place in telling:
                target = self._carry.get(_target(name), place)
                unseen = self._unseen(wiener, solution, observed, target, step, place)
                judged, fitted = self._job.judges(place), self._job.fits(place)
                sums[0] += _energy(target[judged])
                sums[1] += _energy((target - unseen)[judged])
                sums[2] += _energy((target - step)[fitted])
                step = self._carried(step, unseen)
            y = self._carry.get(name, place) if self._carry.has(name, place) else None
            self._carry.put(_next(name), place, step if y is None else y + step)
        if not self._tells:
            return None
        energies, counts = torch.stack(self._job.team.gather(sums)).sum(0).T
        return Missed(*(energies / counts).tolist())

    def _telling(self) -> Collection[int]:
        """The batches that tell what a map misses: all of them where states or stages hang on it, else some."""
        sizes = self._job.data.sizes
        if not self._tells or self._job.selective:
            return range(len(sizes)) if self._tells else ()
        enough = next((place for place in range(len(sizes)) if sum(sizes[: place + 1]) >= JUDGED), len(sizes) - 1)
        return range(enough + 1)

    def _unseen(
        self, wiener: WienerMap, solution: Solution, observed: Tensor, target: Tensor, step: Tensor, place: int
    ) -> Tensor:
        """The map's contribution to each sample as a map fitted without that sample would have made it."""
        if not self.whiten:
            return step
        unseen, fitted = step.clone(), self._job.fits(place)
        analyse, samples = wiener.basis.analyse, self._job.fitted
        spectra = analyse(observed[fitted]), analyse(target[fitted])
        found = wiener.operator.unseen(solution, *spectra, wiener.partition, samples) if len(spectra[0]) else None
        if found is not None:
            unseen[fitted] = wiener.basis.synthesise(found)
        return unseen

    def _carried(self, step: Tensor, unseen: Tensor) -> Tensor:
        """What goes on to the nodes below: what the maps will say of a sample they have seen."""
        return step

    def accept(self, name: str) -> None:
        self._carry.rename(_next(name), name)

    def finish(self, wave: list[str]) -> None:
        for name in wave:
            for key in (_true(name), _source(name), _target(name), _next(name)):
                self._carry.drop(key)
            for child in self._plan.children(name):
                if self._last_reader[child] == name:
                    self._carry.drop(child)

    def close(self) -> None:
        self._carry.close()


class HonestChildren(OnlineChildren):
    """Online states, each from maps that did not see that very sample.

    A fit flatters the samples it was made from; the next node would then be fitted on states better than any it will
    meet. Ridge regression tells in closed form what it would have predicted without a sample (its leverage), so every
    carried state is a leave-one-out state, and what it misses is an honest error of the map.
    """

    whiten = True

    def __init__(self, job: Job, folder: Path | None) -> None:
        super().__init__(job)
        self._folder = folder / "states" if folder is not None else None

    def restorable(self, finished: Collection[str]) -> bool:
        """Whether an interrupted calibration left every state that the unfinished nodes need."""
        needed = self._needed(finished) - {self._plan.target}
        return self._folder is not None and all(self._complete(name) for name in needed)

    def start(self, finished: Maps, bar: Progress) -> None:
        self._kept = self._affordable(finished)
        for place, x in bar.batches(self._job.data, "starting states"):
            point = Linearisation(self._plan.graph, {}, x, keep=[self._plan.target, *self._kept])
            self._keep_true(point, place)
            self._carry.put(self._plan.target, place, point.values[self._plan.target])
        if finished:
            for name in self._needed(finished) - {self._plan.target}:
                for file in self._files(name):
                    with safe_open(file, "pt") as states:
                        for key in set(states.keys()) & set(map(str, self._job.data.places)):
                            self._carry.put(name, int(key), states.get_tensor(key).to(self._plan.graph.device))

    def _telling(self) -> Collection[int]:
        return range(len(self._job.data.sizes))

    def _carried(self, step: Tensor, unseen: Tensor) -> Tensor:
        return unseen

    def keep(self, wave: list[str]) -> None:
        """What a resumed calibration could not work out again: the leave-one-out states."""
        if self._folder is None:
            return
        places = self._job.data.places
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name in wave:
                file = self._folder / f"{self._stem(name)}.{self._job.team.rank}.safetensors"
                draft = file.with_suffix(".part")
                save_file({str(place): self._carry.get(name, place).cpu().contiguous() for place in places}, draft)
                draft.replace(file)
        except (OSError, SafetensorError) as error:  # the latter is how it reports a full disk
            raise StoreError(
                "room and permission to keep the states of a finished node", str(error), "Free space and run again."
            ) from error
        self._job.team.gather(None)  # no node counts as finished before all its states are written

    def finish(self, wave: list[str]) -> None:
        super().finish(wave)
        for name in wave if self._folder is not None else ():
            for child in self._plan.children(name):
                for file in self._files(child) if self._last_reader[child] == name else ():
                    file.unlink(missing_ok=True)

    def discard(self) -> None:
        """The calibration is complete; nothing needs to be resumed."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stem(self, name: str) -> str:
        return f"{self._plan.boundaries.index(name):03d}"

    def _files(self, name: str) -> list[Path]:
        """A file of states from every process."""
        return sorted(self._folder.glob(f"{self._stem(name)}.*.safetensors")) if self._folder is not None else []

    def _complete(self, name: str) -> bool:
        """Whether the states of every batch are there, however many processes wrote them."""
        found: set[str] = set()
        for file in self._files(name):
            with safe_open(file, "pt") as states:
                found.update(states.keys())
        return found >= {str(place) for place in range(len(self._job.data.sizes))}


@dataclass(frozen=True)
class _Again:
    """An iterable that starts anew each time."""

    start: Callable[[], Iterator[tuple[Tensor, Tensor]]]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.start()


def _energy(samples: Tensor) -> Tensor:
    """(2,): the energy of all samples, and how many they are."""
    energy = samples.square().sum(dtype=wide(samples.dtype, samples.device))
    return torch.tensor([float(energy), len(samples)], dtype=wide(torch.float32, "cpu"))


def _true(name: str) -> str:
    return f"{name} true"


def _source(name: str) -> str:
    return f"{name} source"


def _target(name: str) -> str:
    return f"{name} target"


def _next(name: str) -> str:
    return f"{name} next"

"""The processes that calibrate together: one by itself, or those that torchrun started.

Every process is given the same batches and reads its share of them. Moments are summed onto the process that solves
them, and every process gets all solutions. Only the first process writes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sgfi.errors import CalibrationError
from sgfi.spectral import Moments, SharedGain, Solution

T = TypeVar("T")


def launched() -> bool:
    """Whether torchrun (or whatever sets the same variables) started this process beside others."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def follows() -> bool:
    """Whether this process was started to help a first one, which does the talking."""
    return launched() and os.environ["RANK"] != "0"


def assemble(distributed: bool, device: torch.device) -> Team:
    """This process alone, or with those of the default process group (made from torchrun's variables when missing)."""
    if not distributed:
        return Team()
    if not dist.is_available():
        raise CalibrationError("a PyTorch with torch.distributed", "one without it", "Leave distributed=True out.")
    if not dist.is_initialized():
        if "RANK" not in os.environ:
            raise CalibrationError(
                "a process group, or processes started by torchrun, with distributed=True",
                "one process by itself",
                "Start it with torchrun, or leave distributed=True out.",
            )
        with _watched():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if device.type == "cuda":  # where NCCL puts what it makes itself
        torch.cuda.set_device(device)
    return Processes(device)


def leave() -> None:
    """End the process group, if there is one; nobody is waited for."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class Team:
    """One process by itself; also what a calibration asks of several."""

    rank = 0
    size = 1

    def places(self, count: int) -> range:
        """Which of ``count`` batches this process reads."""
        return range(self.rank, count, self.size)

    def gather(self, value: T) -> list[T]:
        """A small value from every process, by rank: also where they wait for each other."""
        return [value]

    def share(self, moments: Moments) -> Moments:
        """The moments of all processes' samples, for the groups that this one solves."""
        return moments

    def exchange(self, solution: Solution) -> list[Solution]:
        """The solutions of all processes, in the order of their groups."""
        return [solution]

    def spread(self, place: int, tensor: Tensor) -> Tensor:
        """A batch's tensor from the process that reads that batch; the others give room of its shape."""
        return tensor

    def in_turn(self, work: Callable[[], T]) -> T:
        """The first process does it, then the others, which find it done."""
        if self.rank:
            self.gather(None)
        done = work()
        if not self.rank:
            self.gather(None)
        return done

    def neighbours(self) -> int:
        """How many of the processes share this machine."""
        return self.gather(socket.gethostname()).count(socket.gethostname())

    def agree(self, fact: str) -> None:
        """All processes must be doing the same thing."""
        if len(set(self.gather(fact))) > 1:
            raise CalibrationError(
                "the same model, plan, settings and data in every process",
                "a difference between them",
                "Start every process with the same arguments, and seed random weights.",
            )


class Processes(Team):
    """The default process group of torch.distributed: gloo between processors, NCCL between GPUs (never run here)."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._meeting = torch.device("cpu") if dist.get_backend() == "gloo" else device

    def gather(self, value: T) -> list[T]:
        found: list = [None] * self.size
        with _watched():
            dist.all_gather_object(found, value)
        return found

    def share(self, moments: Moments) -> Moments:
        parts = [_part(moments.groups, rank, self.size) for rank in range(self.size)]
        scalars = self.gather((moments.count, float(moments.energy), float(moments.target)))
        for rank, part in enumerate(parts):
            theirs = moments.narrowed(part)
            self._send(theirs.xx, dist.reduce, rank)
            self._send(theirs.yx, dist.reduce, rank)
        mine = moments.narrowed(parts[self.rank])
        mine.count = sum(count for count, _, _ in scalars)
        mine.energy = moments.energy.new_tensor(sum(energy for _, energy, _ in scalars))
        mine.target = moments.target.new_tensor(sum(target for _, _, target in scalars))
        return mine

    def exchange(self, solution: Solution) -> list[Solution]:
        mine = _tensors(solution)
        forms = self.gather({key: (tensor.shape, tensor.dtype) for key, tensor in mine.items()})
        found = []
        for rank, form in enumerate(forms):
            room = {key: mine[key].new_empty(shape, dtype=dtype) for key, (shape, dtype) in form.items()}
            tensors = mine if rank == self.rank else room
            found.append(_solution({key: self._send(tensors[key], dist.broadcast, rank) for key in form}))
        return found

    def spread(self, place: int, tensor: Tensor) -> Tensor:
        return self._send(tensor.contiguous(), dist.broadcast, place % self.size)

    def _send(self, tensor: Tensor, collective: Callable, rank: int) -> Tensor:
        """To or from one process, in place. Complex numbers travel as pairs, gloo's through main memory."""
        pairs = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        held = pairs.to(self._meeting)
        if held.numel():
            with _watched():
                collective(held, rank)
        if held is not pairs:
            pairs.copy_(held)
        return tensor


def _part(groups: range, rank: int, size: int) -> range:
    """The groups that one of ``size`` processes solves; none where there are fewer groups than processes."""
    cuts = [groups.start + len(groups) * place // size for place in (rank, rank + 1)]
    return range(*cuts)


def _tensors(solution: Solution) -> dict[str, Tensor]:
    found = {f"weights {key}": value.contiguous() for key, value in solution.weights.items()}
    found["ridge"] = solution.ridge
    if solution.whitener is not None:
        found["whitener"] = solution.whitener.contiguous()
    shared = {} if solution.shrunk_to is None else vars(solution.shrunk_to)
    return found | {f"shared {key}": value.contiguous() for key, value in shared.items()}


def _solution(tensors: dict[str, Tensor]) -> Solution:
    shared = _under("shared ", tensors)
    weights, target = _under("weights ", tensors), SharedGain(**shared) if shared else None
    return Solution(weights, tensors["ridge"], tensors.get("whitener"), target)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


@contextmanager
def _watched() -> Iterator[None]:
    """A lost process shows as a broken connection in all others."""
    try:
        yield
    except RuntimeError as error:
        raise CalibrationError(
            "every process of the calibration to stay until the end",
            f"a lost connection ({str(error).splitlines()[0][:200]})",
            "See which process ended and why; started again, a calibration with a checkpoint goes on from there.",
        ) from error

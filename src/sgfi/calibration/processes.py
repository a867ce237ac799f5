"""The process group that calibrates together: one process by itself, or those that torchrun started.

Every process is given the same batches and reads its share of them. Moments are reduced onto the process that solves
them, and solutions are broadcast to all. Only rank zero writes.
"""

from __future__ import annotations

import atexit
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sgfi.errors import CalibrationError
from sgfi.spectral import Moments, SharedGain, Solution

T = TypeVar("T")
PORT = "sgfi/port"
"""Key in torchrun's store: where rank zero listens."""
JOINING, PAUSE = 600.0, 0.5
"""Seconds that a process waits for rank zero, and between two attempts."""


def launched() -> bool:
    """Whether torchrun (or whatever sets the same variables) started this process beside others."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_worker() -> bool:
    """Whether torchrun started this process with a rank other than zero: rank zero writes and reports."""
    return launched() and os.environ["RANK"] != "0"


def join_group(distributed: bool, device: torch.device) -> ProcessGroup:
    """This process alone, or torch's default process group (initialised from torchrun's variables when missing)."""
    if not distributed:
        return ProcessGroup()
    if not dist.is_available():
        raise CalibrationError("a PyTorch with torch.distributed", "one without it", "Leave distributed=True out.")
    if not dist.is_initialized():
        if "RANK" not in os.environ:
            raise CalibrationError(
                "a process group, or processes started by torchrun, with distributed=True",
                "one process by itself",
                "Start it with torchrun, or leave distributed=True out.",
            )
        backend, restartable = "nccl" if device.type == "cuda" else "gloo", _torchrun_shares_its_store()
        with _connected():
            dist.init_process_group(backend, **(_meeting_point() if restartable else {}))
        atexit.register(leave_group)  # gloo's threads abort a process that ends with its group alive
    if device.type == "cuda":  # where NCCL puts what it makes itself
        torch.cuda.set_device(device)
    return TorchProcessGroup(device)


def _torchrun_shares_its_store() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _meeting_point() -> dict[str, Any]:
    """Rank, size, and a store where the processes of this start of the job leave their addresses.

    The store that torchrun shares with them outlives a restart (``--max-restarts``) and still has the addresses of the
    processes that died. So it only says where rank zero has a new one. What a dead rank zero said leads nowhere, and is
    read again until it was replaced.
    """
    rank, host = int(os.environ["RANK"]), os.environ["MASTER_ADDR"]
    shared = dist.TCPStore(host, int(os.environ["MASTER_PORT"]), is_master=False)
    if not rank:
        own = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        shared.set(PORT, str(own.port))
    else:
        own = dist.TCPStore(host, _answering_port(shared, host), is_master=False)
    return {"store": own, "rank": rank, "world_size": int(os.environ["WORLD_SIZE"])}


def _answering_port(shared: dist.Store, host: str) -> int:
    deadline = time.monotonic() + JOINING
    while True:
        port = int(shared.get(PORT))
        try:
            socket.create_connection((host, port), timeout=PAUSE).close()
            return port
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"rank zero did not answer at {host}:{port}") from error
            time.sleep(PAUSE)


def leave_group() -> None:
    """Destroy torch's default process group, if there is one, without a barrier."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class ProcessGroup:
    """One process by itself; also the interface of several."""

    rank = 0
    size = 1

    def own_batches(self, count: int) -> range:
        """Indices of the batches that this process reads, of ``count`` in all."""
        return range(self.rank, count, self.size)

    def all_gather(self, value: T) -> list[T]:
        """A small value from every process, by rank; also a barrier."""
        return [value]

    def reduce_moments(self, moments: Moments) -> Moments:
        """The moments of all processes' samples, for the groups that this process solves."""
        return moments

    def all_gather_solution(self, solution: Solution) -> list[Solution]:
        """The solutions of all processes, in the order of their groups."""
        return [solution]

    def broadcast_batch(self, batch_index: int, tensor: Tensor) -> Tensor:
        """A batch's tensor from the process that reads that batch; the others pass an empty one of its shape."""
        return tensor

    def rank_zero_first(self, work: Callable[[], T]) -> T:
        """Rank zero does the work, then the other processes."""
        if self.rank:
            self.all_gather(None)
        result = work()
        if not self.rank:
            self.all_gather(None)
        return result

    def processes_on_host(self) -> int:
        """How many of the processes run on this machine."""
        return self.all_gather(socket.gethostname()).count(socket.gethostname())

    def check_agreement(self, signature: str) -> None:
        """All processes must be doing the same thing."""
        if len(set(self.all_gather(signature))) > 1:
            raise CalibrationError(
                "the same model, plan, settings and data in every process",
                "a difference between them",
                "Start every process with the same arguments, and seed random weights.",
            )


class TorchProcessGroup(ProcessGroup):
    """The default process group of torch.distributed: gloo between CPUs, NCCL between GPUs (not tested on GPUs)."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._device = torch.device("cpu") if dist.get_backend() == "gloo" else device
        """Where collectives expect their tensors."""

    def all_gather(self, value: T) -> list[T]:
        values: list = [None] * self.size
        with _connected():
            dist.all_gather_object(values, value)
        return values

    def reduce_moments(self, moments: Moments) -> Moments:
        parts = [_groups_of(rank, self.size, moments.groups) for rank in range(self.size)]
        scalars = self.all_gather((moments.count, float(moments.energy), float(moments.target)))
        for rank, part in enumerate(parts):
            theirs = moments.narrowed(part)
            self._run(dist.reduce, theirs.xx, rank)
            self._run(dist.reduce, theirs.yx, rank)
        mine = moments.narrowed(parts[self.rank])
        mine.count = sum(count for count, _, _ in scalars)
        mine.energy = moments.energy.new_tensor(sum(energy for _, energy, _ in scalars))
        mine.target = moments.target.new_tensor(sum(target for _, _, target in scalars))
        return mine

    def all_gather_solution(self, solution: Solution) -> list[Solution]:
        mine = _tensors(solution)
        forms = self.all_gather({key: (tensor.shape, tensor.dtype) for key, tensor in mine.items()})
        solutions = []
        for rank, form in enumerate(forms):
            empty = {key: mine[key].new_empty(shape, dtype=dtype) for key, (shape, dtype) in form.items()}
            tensors = mine if rank == self.rank else empty
            solutions.append(_solution({key: self._run(dist.broadcast, tensors[key], rank) for key in form}))
        return solutions

    def broadcast_batch(self, batch_index: int, tensor: Tensor) -> Tensor:
        return self._run(dist.broadcast, tensor.contiguous(), batch_index % self.size)

    def _run(self, collective: Callable, tensor: Tensor, rank: int) -> Tensor:
        """To or from one process, in place. Complex numbers travel as pairs, gloo's through main memory."""
        pairs = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        sent = pairs.to(self._device)
        if sent.numel():
            with _connected():
                collective(sent, rank)
        if sent is not pairs:
            pairs.copy_(sent)
        return tensor


def _groups_of(rank: int, size: int, groups: range) -> range:
    """The groups that one of ``size`` processes solves; none where there are fewer groups than processes."""
    first, after = (groups.start + len(groups) * edge // size for edge in (rank, rank + 1))
    return range(first, after)


def _tensors(solution: Solution) -> dict[str, Tensor]:
    tensors = {f"weights {key}": value.contiguous() for key, value in solution.weights.items()}
    tensors["ridge"] = solution.ridge
    if solution.whitener is not None:
        tensors["whitener"] = solution.whitener.contiguous()
    shared = {} if solution.shrunk_to is None else vars(solution.shrunk_to)
    return tensors | {f"shared {key}": value.contiguous() for key, value in shared.items()}


def _solution(tensors: dict[str, Tensor]) -> Solution:
    shared = _under("shared ", tensors)
    weights, target = _under("weights ", tensors), SharedGain(**shared) if shared else None
    return Solution(weights, tensors["ridge"], tensors.get("whitener"), target)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


@contextmanager
def _connected() -> Iterator[None]:
    """A process that ended shows as a broken connection in all others."""
    try:
        yield
    except RuntimeError as error:
        raise CalibrationError(
            "every process of the calibration to stay until the end",
            f"a lost connection ({str(error).splitlines()[0][:200]})",
            "See which process ended and why; a calibration with a checkpoint can be resumed.",
        ) from error

"""Run by torchrun in tests/calibration/test_processes.py: ``two_processes.py FOLDER MODE...``.

``MODE:RANK`` kills the process of that rank once, after the first finished node; the next run of it lives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.calibration.processes import TorchProcessGroup, leave_group
from sgfi.storage.files import UNFINISHED
from tests.analytic import tiny

MODES: dict[str, dict[str, Any]] = {
    "true": {"plan": {}, "children": "true"},
    "online": {"plan": {}, "children": "online"},
    "cross-fitted": {"plan": {}, "children": "cross-fitted", "ridge": "auto", "stages": "auto"},
    "low rank": {"plan": {"operator": "diagonal+rank2", "partition": "shared"}, "children": "online"},
    "tangents": {"plan": {}, "children": "online", "on": "tangents3", "sizes": [4, 3, 6]},
    "lengths": {"plan": {}, "children": "online", "length": True},
    "gamma": {"plan": {"operator": "gamma"}, "children": "cross-fitted"},
}


@cache
def graph() -> sgfi.TensorGraph:
    return sgfi.capture(tiny("chain"), tiny("chain").inputs(2))


def plan(**more: Any) -> sgfi.Plan:
    return sgfi.plan(graph(), target=tiny("chain").target, boundaries=list(tiny("chain").boundaries), **more)


def batches(sizes: Sequence[int] = (3, 1, 4, 2, 3)) -> list[Tensor]:
    return list(tiny("chain").inputs(13).split(list(sizes)))


def calibrate(mode: str, data: Any = None, **more: Any) -> sgfi.MapFamily:
    settings = dict(MODES[mode])
    data = data or batches(settings.pop("sizes", (3, 1, 4, 2, 3)))
    return sgfi.calibrate(plan(**settings.pop("plan")), data, progress=False, **settings, **more)


class Mortal:
    """Batches by index; the process is killed at the first one it reads after a node was finished, once."""

    def __init__(self, note: Path) -> None:
        self.data, self.note, self.killed = batches(), note, killed_once(note.parent)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Tensor:
        if not self.killed.exists() and self.note.exists() and json.loads(self.note.read_text())["nodes"]:
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.data[index]


def killed_once(checkpoint: Path) -> Path:
    """A file beside the checkpoint folder, there once a process was killed."""
    return checkpoint.with_name(f"{checkpoint.name}.killed")


def main(folder: Path, modes: list[str]) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    for mode in modes:
        name, _, killed = mode.partition(":")
        checkpoint = folder / name.replace(" ", "_")
        data = Mortal(checkpoint / UNFINISHED) if killed == str(rank) else None
        family = calibrate(name, data, distributed=True, checkpoint=checkpoint)
        weights = [w for maps in family.maps.values() for wiener_map in maps for w in wiener_map.weights.values()]
        sums = TorchProcessGroup(torch.device("cpu")).all_gather([float(weight.abs().sum()) for weight in weights])
        assert sums[0] == sums[1], f"{mode}: the processes have different maps"
    leave_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

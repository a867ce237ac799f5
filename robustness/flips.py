"""Flipped bits and truncated files of a map folder: refused, or the answer is bit for bit the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally
from sgfi.errors import SgfiError

WAYS = ({"verify": True}, {"verify": False}, {"verify": False, "stream": True})


def run(effort: Effort) -> list[Row]:
    with subject.scratch() as folder:
        saved = sgfi.save(subject.family(), folder / "maps")
        packed = sgfi.save(subject.family(), folder / "packed", precision="half")
        return [
            _damaged(effort, "bit flips in a map folder", 2000, saved, flip),
            _damaged(effort, "bit flips in a packed map folder", 400, packed, flip),
            _damaged(effort, "truncations of a map folder", 600, saved, truncate),
            _damaged(effort, "bytes overwritten with noise in a map folder", 400, saved, scribble),
            _checkpoints(effort, folder / "checkpoint"),
        ]


def flip(data: bytearray, rng: random.Random) -> bytearray:
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    return data


def truncate(data: bytearray, rng: random.Random) -> bytearray:
    return data[: rng.randrange(len(data))]


def scribble(data: bytearray, rng: random.Random) -> bytearray:
    at, length = rng.randrange(len(data)), rng.randrange(1, 64)
    data[at : at + length] = rng.randbytes(length)
    return data


def _damaged(
    effort: Effort, name: str, count: int, saved: Path, harm: Callable[[bytearray, random.Random], bytearray]
) -> Row:
    tally = Tally(name, effort.seed_of(name))
    rng, x, graph = random.Random(tally.seed), subject.inputs(2, 7), subject.graph()
    expected = sgfi.invert(sgfi.load(saved, graph), x).value
    files = sorted(file for file in saved.iterdir() if file.is_file())
    for index in range(effort.count(count)):
        file, way = rng.choice(files), WAYS[index % len(WAYS)]
        before = file.read_bytes()
        file.write_bytes(harm(bytearray(before), rng))
        subject.attempt(
            tally,
            f"{file.name}, trial {index}, {way}",
            lambda way=way: sgfi.invert(sgfi.load(saved, graph, **way), x).value,
            lambda found: "" if torch.equal(found, expected) else "another inverse",
        )
        file.write_bytes(before)
    return tally.row()


def _checkpoints(effort: Effort, folder: Path) -> Row:
    """A damaged checkpoint resumes to the same maps, or says that it cannot."""
    name = "bit flips in an unfinished checkpoint"
    tally = Tally(name, effort.seed_of(name))
    rng = random.Random(tally.seed)
    _unfinished(folder)
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    for index in range(effort.count(200)):
        shutil.rmtree(folder)
        folder.mkdir()
        chosen = rng.choice(sorted(kept))
        for name, data in kept.items():
            (folder / name).write_bytes(flip(bytearray(data), rng) if name == chosen else data)
        subject.attempt(
            tally,
            f"{chosen}, trial {index}",
            lambda: subject.calibrated(checkpoint=folder),
            lambda found: "" if subject.same(found, subject.family()) else "other maps",
        )
    return tally.row()


def _unfinished(folder: Path) -> None:
    """A calibration that failed after its first nodes."""
    from sgfi.storage.checkpoint import Checkpoint

    keep, count = Checkpoint.keep, 0

    def failing(self, *given):
        nonlocal count
        count += 1
        if count > 2:
            raise SgfiError("to be stopped here", "it", "")
        return keep(self, *given)

    Checkpoint.keep = failing  # type: ignore[method-assign]
    try:
        subject.calibrated(checkpoint=folder)
    except SgfiError:
        pass
    finally:
        Checkpoint.keep = keep  # type: ignore[method-assign]

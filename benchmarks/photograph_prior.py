"""Measure the prior of natural photographs that comes with the package: mean colour and colour covariance by ring.

    python -m benchmarks.photograph_prior FOLDER [--count 1000] [--size 224]

FOLDER holds photographs, in subfolders or not. Only the statistics are written.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from sgfi.inputs.data import IMAGE_SUFFIXES, read_image
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.natural.grid import GridPrior
from sgfi.natural.photographs import FILE, as_record
from sgfi.natural.prior import prior

SEED = 123
BATCH = 50


def batches(files: list[Path], size: int) -> Iterator[Tensor]:
    """(B, 3, size, size) in [0, 1]; the shorter side resized, the centre cropped."""
    plain = Preprocessing(size=(size, size), mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bicubic")
    for start in range(0, len(files), BATCH):
        yield torch.stack([read_image(file, plain).reshape(3, size, size) for file in files[start : start + BATCH]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--out", type=Path, default=FILE)
    arguments = parser.parse_args()
    files = sorted(file for file in arguments.folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    random.Random(SEED).shuffle(files)
    measured = prior(batches(files[: arguments.count], arguments.size), kind="grid")
    assert isinstance(measured, GridPrior)
    record = {"photographs": min(arguments.count, len(files)), **as_record(measured)}
    arguments.out.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, {len(measured.rings)} rings")


if __name__ == "__main__":
    main()

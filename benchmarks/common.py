"""What the benchmark programs share: assets, photographs, result files."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def assets() -> Path:
    """The folder with real weights and photographs that ``SGFI_ASSETS`` names."""
    folder = Path(os.environ.get("SGFI_ASSETS", "assets"))
    if not folder.is_dir():
        sys.exit(f"This benchmark needs real weights and photographs; set SGFI_ASSETS (looked in {folder}).")
    return folder


def network(name: str, size: int) -> Any:
    """A real ImageNet network by short name, with its preprocessing."""
    from sgfi.inputs.models import load_model

    weights = assets() / "weights"
    known = {
        "efficientnet_lite0": ("pip:efficientnet_lite0", None),
        "deit_tiny": ("timm:deit_tiny_patch16_224", weights / "deit_tiny_patch16_224_imagenet_fp16.safetensors"),
        "resnet50": ("docs/results/experiments/setups/networks.py:resnet50_v1", None),
        "mobilenet_v2": ("torchvision:mobilenet_v2", weights / "mobilenet_v2_imagenet.safetensors"),
    }
    spec, file = known[name]
    return load_model(spec, size=size) if file is None else load_model(spec, weights=str(file), size=size)


def photographs(count: int, held_out: int, preprocessing: Any, seed: int = 123) -> tuple[Tensor, Tensor]:
    """Calibration and held-out photographs ``(N, 3, H, W)``, disjoint, drawn with a seed."""
    files = sorted((assets() / "images" / "imagenet_val").rglob("*.jpg"))
    random.Random(seed).shuffle(files)
    from sgfi.inputs.data import read_image

    chosen = [read_image(file, preprocessing) for file in files[: count + held_out]]
    stacked = torch.stack([image.squeeze(0) for image in chosen])
    return stacked[:count], stacked[count:]


def timed(ways: Mapping[str, Callable[[], object]], repeats: int, warm: bool = True) -> dict[str, dict[str, float]]:
    """Median seconds of each way, processor time of this process and time on the clock.

    Taken in turns, so that a busy machine is busy for all of them; with ``warm`` the first turn is not counted.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(0 if warm else 1, repeats + 1):
        for name, way in ways.items():
            cpu, wall = time.process_time(), time.perf_counter()
            way()
            if turn:
                taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {
        name: {"cpu": statistics.median(cpu for cpu, _ in times), "wall": statistics.median(wall for _, wall in times)}
        for name, times in taken.items()
    }


def write(name: str, result: Mapping[str, Any], table: str = "") -> None:
    """``results/<name>.json`` with the machine and the command beside the numbers, and a Markdown table."""
    RESULTS.mkdir(exist_ok=True)
    record = {"command": command(), "machine": machine(), **result}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    if table:
        (RESULTS / f"{name}.md").write_text(f"`{command()}`\n\n{table}\n")
        print(table)


def command() -> str:
    return " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]])


def machine() -> dict[str, Any]:
    from sgfi.experiments.provenance import provenance

    return {name: fact for name, fact in provenance().items() if name != "command"}


def table(head: list[str], rows: list[list[Any]]) -> str:
    cells = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *cells]]
    return "\n".join(lines)


def parser(about: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=(about or "").strip().splitlines()[0])

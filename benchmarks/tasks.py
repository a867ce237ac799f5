"""What a researcher tries first, each in at most three lines, with the processor seconds it takes.

EfficientNet-Lite0 at 128 pixels with the weights that pip carries, and DeiT-tiny at 224 pixels.
The lines are run as they stand here, after ``SETUP``; docs/features.md shows them.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.common import assets, network, parser, table, write

SETUP = """
import sgfi
from sgfi.figures.atlases import strongest_channels
from sgfi.inputs.data import read_image
graph = sgfi.capture(loaded.model, loaded.example)
how = {"preprocessing": loaded.preprocessing}
lens = sgfi.natural(graph, loaded.preprocessing)
x = read_image(files[0], loaded.preprocessing)
"""
TASKS = {
    "which channels matter here, and what do they see": """
channels = strongest_channels(lens, x, "blocks.4.1", 3)
sgfi.look(graph, x, [f"blocks.4.1:{c}" for c in channels], **how).save("channels.png")
""",
    "what does this SAE latent see": """
sgfi.look(graph, x, "blocks.4.1%sae.safetensors:3@2,3", **how).save("latent.png")
""",
    "what does this class decision rest on": """
sgfi.look(graph, x, ["logits:207", "margin:207,208"], **how).save("decision.png")
""",
    "two inputs, two layers, two methods in one figure": """
sgfi.compare(loaded, files[:2], ["blocks.2.1:17", "blocks.4.1:17"], ["natural, path", "gradient"]).save("all.png")
""",
    "the same for a folder of images, with progress and resume (per image)": """
sgfi.look_all(loaded, folder, "blocks.4.1:17", "looks", progress=False)
""",
    "the same again, when it is finished (per image)": """
sgfi.look_all(loaded, folder, "blocks.4.1:17", "looks", progress=False)
""",
    "a figure for a paper": """
sgfi.look(graph, x, "blocks.4.1:17@2,3", **how).save("figure.pdf")
""",
}
PATCH = {
    "what does patch 12 at layer 8 hold": """
sgfi.look(graph, x, "blocks.8@12", **how).save("patch.png")
""",
}
IMAGES = 4


def measured(name: str, size: int, tasks: dict[str, str], files: list[Path]) -> dict[str, float]:
    """Processor seconds of every task in a folder of its own."""
    space: dict[str, Any] = {"loaded": network(name, size), "files": files, "folder": "photos"}
    taken: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("photos").mkdir()
        for file in files:
            shutil.copy(file, "photos")
        torch.manual_seed(0)
        save_file({"W_enc": torch.randn(112, 16), "W_dec": torch.randn(16, 112)}, "sae.safetensors")
        for label, lines in {f"before all of them: capture {name}": SETUP, **tasks}.items():
            assert lines is SETUP or len(lines.strip().splitlines()) <= 3
            start = time.process_time()
            exec(lines, space)
            taken[label] = (time.process_time() - start) / (len(files) if "per image" in label else 1)
    return taken


def main() -> None:
    parser(__doc__).parse_args()
    torch.set_num_threads(1)
    files = sorted((assets() / "images" / "imagenet_val").rglob("*.jpg"))[207::500][:IMAGES]
    taken = measured("efficientnet_lite0", 128, TASKS, files)
    taken |= measured("deit_tiny", 224, PATCH, files)
    lines = {label: text.strip().splitlines() for label, text in (TASKS | PATCH).items()}
    rows = [[label, len(lines.get(label, SETUP.strip().splitlines())), own] for label, own in taken.items()]
    write("tasks", {"seconds": taken, "lines": lines}, table(["task", "lines", "processor s"], rows))


if __name__ == "__main__":
    main()

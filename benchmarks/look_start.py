"""How long ``sgfi look`` takes to start: with the captured model on disk, against building and tracing it.

Each way in a process of its own, processor seconds until model and graph are ready, relative to importing torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.common import parser, table, write

WAYS = {
    "import torch": "import torch",
    "import sgfi look": "import sgfi.cli.looking",
    "first call": "import sgfi.cli.looking as s; s.from_cache({spec!r}, 'none', None, True, [])",
    "second call": "import sgfi.cli.looking as s; s.from_cache({spec!r}, 'none', None, True, [])",
    "without the cache": (
        "import sgfi, sgfi.cli.looking as s; m, _ = s.from_library({spec!r}, 'none', None, True, []); "
        "sgfi.capture(m.model, m.example)"
    ),
}
MODELS = ("torchvision:resnet50", "timm:vit_tiny_patch16_224")


def seconds(program: str, cache: str) -> float:
    """User and system time of one process."""
    own = f"import time, json; {program}; print(json.dumps(sum(__import__('os').times()[:2])))"
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run([sys.executable, "-c", own], env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser(__doc__).parse_args()
    rows: list[list[Any]] = []
    result: dict[str, dict[str, float]] = {}
    for spec in MODELS:
        with tempfile.TemporaryDirectory() as cache:
            taken = {way: seconds(program.format(spec=spec), cache) for way, program in WAYS.items()}
        result[spec] = taken
        rows += [[spec, way, own, own / taken["import torch"]] for way, own in taken.items()]
    write("look_start", {"seconds": result}, table(["model", "way", "processor s", "of importing torch"], rows))


if __name__ == "__main__":
    main()

"""A fresh virtual environment fetches a demonstration family from a loopback server and draws its first picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, parser, table, write

HERE = Path(__file__).resolve().parents[1]
TARGET = "blocks.2.1"
VISITOR = """
import json, sys, time
start = time.perf_counter()
import sgfi
from sgfi.inputs.models import load_model
from sgfi.inputs.photographs import held_out_images
imported, cpu = time.perf_counter(), time.process_time()
family = sgfi.from_pretrained(sys.argv[1], cache=sys.argv[2])
pulled = time.perf_counter()
preprocessing = load_model("pip:efficientnet_lite0", size=64).preprocessing
x = next(iter(held_out_images(preprocessing)))[:1]
value = sgfi.invert(family, x).value
from PIL import Image
pixels = (preprocessing.denormalise(value)[0].clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()
Image.fromarray(pixels).resize((256, 256)).save(sys.argv[3])
drawn = time.perf_counter()
print(json.dumps({"import": imported - start, "pull": pulled - imported, "picture": drawn - pulled,
                  "after_import": drawn - imported, "after_import_cpu": time.process_time() - cpu}))
"""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--python", help="an environment that is there already, in place of a fresh one")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = published(folder / "site" / "maps")
        start = time.perf_counter()
        python = given.python or fresh(folder / "venv")
        installed = time.perf_counter() - start
        with_server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder / "site")))
        threading.Thread(target=with_server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{with_server.server_address[1]}/maps"
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or given.python}
        clean["XDG_CACHE_HOME"] = str(folder / "home")
        picture = RESULTS / "first_picture.png"
        command = [python, "-c", VISITOR, address, str(folder / "cache"), str(picture)]
        visit = partial(subprocess.run, command, capture_output=True, text=True, env=clean, cwd=folder, check=False)
        visits = {"first": visit(), "again, in a new process": visit()}
        with_server.shutdown()
    for done in visits.values():
        if done.returncode:
            sys.exit(done.stderr)
    taken = {name: json.loads(done.stdout.splitlines()[-1]) for name, done in visits.items()}
    environment = "given" if given.python else f"fresh, {installed:.0f} s to install"
    head = ["environment", "maps", "visit", *(f"{name}, s" for name in taken["first"])]
    rows: list[list[Any]] = [
        [environment, f"{size / 2**20:.1f} MiB", name, *seconds.values()] for name, seconds in taken.items()
    ]
    facts = {"bytes": size, "install_seconds": installed, "fresh": not given.python}
    write(
        "first_picture",
        facts | {"seconds": taken["first"], "again": taken["again, in a new process"]},
        table(head, rows),
    )


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def published(path: Path) -> int:
    """A family of the demonstration's network and photographs, in bytes; how many there are."""
    import sgfi
    from sgfi.inputs.models import load_model
    from sgfi.inputs.photographs import random_crops
    from sgfi.sharing import Licences, publish

    loaded = load_model("pip:efficientnet_lite0", size=64)
    plan = sgfi.plan(sgfi.capture(loaded.model, loaded.example), TARGET, size="small")
    batches = random_crops(loaded.preprocessing, 128)  # type: ignore[arg-type]
    family = sgfi.calibrate(plan, batches, progress=False, provenance={"model": loaded.provenance})
    path.parent.mkdir()
    publish(family, path, Licences("apache-2.0", "cc0-1.0"), precision="int8")
    return sum(file.stat().st_size for file in path.iterdir())


def fresh(path: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    python = str(path / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"{HERE}[demo]"], check=True)
    return python


if __name__ == "__main__":
    main()

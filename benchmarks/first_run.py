"""The README followed in a new clone and an empty environment: how long each step takes on the clock.

Clones this repository, runs ``make demo``, then a model, a query and a report of one's own, with the blocks of the
README, docs/your-model.md and docs/cli.md. Nothing is lent: no cache of pip's, no variable of Python's.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import HERE, parser, table, write

ROOT = HERE.parent
PYTHONS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SGFI_ASSETS")
PHOTO = "$(.venv/bin/python -c 'from sgfi.inputs.photographs import HELD_OUT; print(HELD_OUT[0].file)')"


def blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def steps() -> dict[str, str]:
    """By what a reader does next."""
    run = ".venv/bin/python -c"
    return {
        "the README's lines of Python": f"{run} {shlex.quote(blocks('README.md')[0])}",
        "a model of one's own, asked in Python": f"{run} {shlex.quote(''.join(blocks('docs/your-model.md')[:2]))}",
        "the same from a file, a query of one's own": ".venv/bin/sgfi look my_model.py:build "
        f"{PHOTO} --query 2:3@4,5 --out answer-mine.png",
        "a report to share about it": f".venv/bin/sgfi report my_model.py:build {PHOTO} --query 2:3 --out mine.html",
    }


def seen(command: str, folder: Path, marks: dict[str, str]) -> dict[str, float]:
    """Seconds on the clock until the output first shows each mark, and until the command is done."""
    environment = {name: value for name, value in os.environ.items() if name not in PYTHONS}
    environment |= {"PIP_NO_CACHE_DIR": "1", "XDG_CACHE_HOME": str(folder.parent / "cache"), "PYTHONUNBUFFERED": "1"}
    start, taken = time.perf_counter(), {}
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"{time.perf_counter() - start:7.1f}  {line.rstrip()}", flush=True)
            for name, mark in marks.items():
                if name not in taken and re.search(mark, line):
                    taken[name] = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {command}")
    return {**taken, "done": time.perf_counter() - start}


def main() -> None:
    parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as work:
        clone = Path(work) / "sgfi"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        demo = seen("make demo", clone, {"installed": r"sgfi demo", "link": r"report\.html"})
        seconds: dict[str, Any] = {
            "make demo: the environment (most of it PyTorch)": demo["installed"],
            "from there to the link with the first picture": demo["link"] - demo["installed"],
            "from there to the end of the demonstration": demo["done"] - demo["installed"],
        }
        (clone / "my_model.py").write_text(blocks("docs/cli.md")[0])
        for label, command in steps().items():
            seconds[label] = seen(command, clone, {})["done"]
        load = os.getloadavg()[2]
        megabytes = sum(file.stat().st_size for file in (clone / ".venv").rglob("*") if file.is_file()) // 2**20
    rows = [[label, round(value, 1)] for label, value in seconds.items()]
    result = {"seconds": seconds, "load_15_minutes": load, "environment_mb": megabytes}
    write("first_run", result, table(["step", "seconds on the clock"], rows))


if __name__ == "__main__":
    main()

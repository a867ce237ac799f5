"""``python -m robustness.run``: every campaign, a table of what was tried, what failed and the worst seen.

Writes ``docs/results/robustness/result.json`` and ``result.md``; rows of campaigns that are not run now stay as they
are. Each campaign runs in a process of its own, several at a time with ``--jobs``. Ends with code 1 where anything
failed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from robustness.campaign import FAULTS, Effort, Row
from sgfi.evaluation.tables import markdown_table

CAMPAIGNS = ("command_lines", "calls", "audit", "kills", "hostile_files", "flips", "threads", "explorer")
"""Modules of this package, the longest first; one that is not there yet is left out."""
MARKS = ("<!-- robustness -->", "<!-- /robustness -->")
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "robustness"


PAGE = RESULTS.parents[1] / "robustness.md"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m robustness.run", description=__doc__)
    parser.add_argument("campaigns", nargs="*", metavar="campaign", help=f"some of {', '.join(CAMPAIGNS)} (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of trials")
    parser.add_argument("--jobs", type=int, default=1, help="campaigns at a time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for result.json and result.md")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    unknown = set(given.campaigns) - set(CAMPAIGNS)
    if unknown:
        parser.error(f"no campaign {sorted(unknown)}; known are {', '.join(CAMPAIGNS)}")
    effort = Effort(given.seed, given.share)
    if given.rows is not None:
        given.rows.write_text(json.dumps([row.as_dict() for row in run_campaign(given.campaigns[0], effort)]))
        return 0
    names = [name for name in given.campaigns or CAMPAIGNS if importlib.util.find_spec(f"robustness.{name}")]
    failed = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        running = {pool.submit(in_process, name, effort): name for name in names}
        for done in as_completed(running):  # each is written when it ends: another may fail
            write(given.out, {running[done]: done.result()})
            failed += sum(row["failed"] for row in done.result()["rows"])
    return int(failed > 0)


def in_process(name: str, effort: Effort) -> dict[str, Any]:
    """One campaign in a process of its own: its rows, and how it was run."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        words = [name, "--seed", str(effort.seed), "--share", str(effort.share)]
        done = subprocess.run([sys.executable, "-m", "robustness.run", *words, "--rows", str(rows)])
        if done.returncode:
            raise RuntimeError(f"the campaign {name} itself failed, with code {done.returncode}")
        return {
            "command": f"python -m robustness.run {' '.join(words)}",
            "seconds": round(time.monotonic() - start),
            "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
            "rows": json.loads(rows.read_text()),
        }


def run_campaign(name: str, effort: Effort) -> list[Row]:
    """The rows of one campaign, each printed with its seed."""
    rows: list[Row] = importlib.import_module(f"robustness.{name}").run(effort)
    for row in rows:
        print(f"{name}: {row.name}: {row.tried} tried, {row.failed} failed, seed {row.seed}. {row.worst}", flush=True)
        for failure in row.failures:
            print(f"    {failure}", flush=True)
    return rows


def write(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    """The results with those of campaigns that ran earlier."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "result.json"
    earlier = json.loads(file.read_text(encoding="utf-8"))["campaigns"] if file.is_file() else {}
    campaigns = {name: {**earlier, **found}[name] for name in CAMPAIGNS if name in {**earlier, **found}}
    rows = [row for result in campaigns.values() for row in result["rows"]]
    result = {"faults": faults(rows), "campaigns": campaigns}
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "result.md").write_text(markdown(rows) + "\n", encoding="utf-8")
    if folder == RESULTS:
        fill(PAGE, markdown(rows))


def fill(page: Path, table: str) -> None:
    """Put the table between its marks on the page."""
    head, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    page.write_text(f"{head}{MARKS[0]}\n{table}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


def faults(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How often each kind of fault was seen."""
    every = [row["faults"] for row in rows]
    return {fault: sum(found.get(fault, 0) for found in every) for fault in FAULTS}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table, and below it the faults by kind."""
    lines = [[row["name"], f"{row['tried']:,}", str(row["failed"]), _worst(row), str(row["seed"])] for row in rows]
    total = ["all", f"{sum(row['tried'] for row in rows):,}", str(sum(row["failed"] for row in rows)), "", ""]
    table = markdown_table(["what", "tried", "failed", "worst seen", "seed"], [*lines, total])
    return f"{table}\n\n" + "; ".join(f"{fault}: {count}" for fault, count in faults(rows).items()) + "."


def _worst(row: dict[str, Any]) -> str:
    """Without what a table or a page would take as its own."""
    plain = re.sub(r"[^ -~]|[|<>\[\]`*_\\]", " ", row["worst"])
    return " ".join(plain.split())[:110]


if __name__ == "__main__":
    sys.exit(main())

"""A small share of every campaign, in a process of its own as `make robust` runs them: nothing may fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("campaigns", "share"),
    [(["kills", "flips", "threads"], 0.03), (["hostile_files", "calls"], 0.02), (["command_lines"], 0.03)],
    ids=["files and threads", "inputs and calls", "command lines"],
)
def test_a_share_of_the_campaigns(campaigns: list[str], share: float, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "robustness.run", *campaigns, "--share", str(share), "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    rows = [row for campaign in result["campaigns"].values() for row in campaign["rows"]]
    assert all(row["tried"] for row in rows) and not any(result["faults"].values())

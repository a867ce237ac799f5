"""Calibration by several processes: the maps of one, whoever reads, solves, or is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.calibration.processes import ProcessGroup, _groups_of, join_group
from sgfi.errors import CalibrationError, StoreError
from sgfi.storage.checkpoint import UNFINISHED, Checkpoint
from tests.calibration.two_processes import MODES, calibrate, plan

ROOT = Path(__file__).resolve().parents[2]


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    """Two processes of one command, with this tree on the path."""
    known = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*launcher, *command], env=known, capture_output=True, text=True, timeout=300, check=False)


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily) -> None:
    assert first.maps.keys() == second.maps.keys() and first.stages == second.stages
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            for key in left.weights:
                torch.testing.assert_close(left.weights[key], right.weights[key], rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = torchrun(str(ROOT / "tests" / "calibration" / "two_processes.py"), str(folder), *MODES)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_give_the_maps_of_one(mode: str, ran: Path) -> None:
    alone = calibrate(mode)
    together = sgfi.load(ran / mode.replace(" ", "_"), alone.plan.graph)
    agree(together, alone)
    held_out = mode in ("cross-fitted", "lengths")
    assert together.samples == alone.samples == (39 if mode == "tangents" else 13 - held_out)
    assert together.mean == alone.mean or together.mean == pytest.approx(alone.mean, rel=1e-12)
    for name, records in alone.diagnostics.items():
        for expected, record in zip(records, together.diagnostics[name], strict=True):
            assert record == pytest.approx(expected, rel=1e-7)
    for target, lengths in alone.lengths.items():
        assert together.lengths[target] == pytest.approx(lengths, rel=1e-4)
    assert bool(together.lengths) == (mode == "lengths")


def test_a_checkpoint_of_two_processes_is_that_of_one(ran: Path) -> None:
    again = calibrate("online", checkpoint=ran / "online")
    agree(again, calibrate("online"))


def test_a_killed_process_ends_the_job_and_leaves_what_was_finished(tmp_path: Path) -> None:
    mode = "cross-fitted"  # the one that also needs its states again
    done = torchrun(str(ROOT / "tests" / "calibration" / "two_processes.py"), str(tmp_path), f"{mode}:1")
    assert done.returncode != 0
    assert "SIGKILL" in done.stderr or "lost connection" in done.stderr
    left = json.loads((tmp_path / mode / UNFINISHED).read_text())["nodes"]
    assert 0 < len(left) < len(plan().fitted)
    written = {name: (tmp_path / mode / entry["file"]).stat().st_mtime_ns for name, entry in left.items()}
    agree(calibrate(mode, checkpoint=tmp_path / mode), calibrate(mode))
    assert written == {name: (tmp_path / mode / entry["file"]).stat().st_mtime_ns for name, entry in left.items()}


def test_the_command_line_under_torchrun(tmp_path: Path) -> None:
    net, data, out = tmp_path / "net.py", tmp_path / "inputs.safetensors", tmp_path / "maps"
    net.write_text(
        "import torch\nINPUT_SHAPE = (2, 6, 6)\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.Tanh(), torch.nn.Conv2d(4, 4, 3))\n"
    )
    from safetensors.torch import save_file

    save_file({"inputs": torch.randn(10, 2, 6, 6)}, data)
    given = ["calibrate", f"{net}:build", "--weights", "none", "--data", str(data), "--batch-size", "3"]
    done = torchrun("-m", "sgfi", *given, "--out", str(out), "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(out)]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == [
        "inputs.safetensors",
        "maps",
        "net.py",
    ]
    assert sgfi.storage.folder.read_manifest(out)["calibration"]["samples"] == 10


@pytest.mark.parametrize("groups", [range(7), range(3, 5), range(4, 5), range(2, 2)])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_cover_every_group_once(groups: range, size: int) -> None:
    assert [group for rank in range(size) for group in _groups_of(rank, size, groups)] == list(groups)


def test_asked_to_be_distributed_but_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(CalibrationError, match="torchrun"):
        join_group(True, torch.device("cpu"))
    assert type(join_group(False, torch.device("cpu"))) is ProcessGroup


def test_processes_that_do_different_things(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessGroup, "all_gather", lambda self, value: [value, "something else"])
    with pytest.raises(CalibrationError, match="same model, plan, settings and data"):
        ProcessGroup().check_agreement("this")


def test_a_checkpoint_folder_that_only_rank_zero_sees(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="every process can see"):
        Checkpoint(tmp_path / "elsewhere", "signature", plan(), writes=False)

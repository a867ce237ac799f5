"""Calibration by several processes: the maps of one, whoever reads, solves, or is killed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import sgfi
from sgfi.calibration import processes
from sgfi.calibration.processes import ProcessGroup, _groups_of, join_group
from sgfi.errors import CalibrationError, StoreError
from sgfi.storage.checkpoint import MANIFEST, UNFINISHED, Checkpoint
from tests.calibration.two_processes import MODES, calibrate, killed_once, plan

ROOT = Path(__file__).resolve().parents[2]


SCRIPT = str(ROOT / "tests" / "calibration" / "two_processes.py")
KILLED = "cross-fitted"
"""The mode of a killed job: the one that also needs its states again."""
ENOUGH = 300
"""Seconds after which a launcher counts as hanging, on a busy machine too."""

pytestmark = pytest.mark.xdist_group("processes")  # one worker starts them, and the module's runs are made once


def launcher(*options: str) -> subprocess.Popen[str]:
    """A torchrun of its own, with this tree on the path."""
    known = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    return subprocess.Popen(command, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """What a launcher wrote; one that hangs is an error, and is stopped with what it started."""
    try:
        out, errors = process.communicate(timeout=ENOUGH)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    """Two processes of one command on one node."""
    return ended(launcher("--standalone", "--nproc-per-node", "2", *command))


def two_nodes(*command: str) -> list[subprocess.CompletedProcess[str]]:
    """Two launchers of one process each, which meet over the loopback as two machines would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    meeting = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    nodes = [launcher(*meeting, "--node-rank", str(rank), *command) for rank in (0, 1)]
    return [ended(node) for node in nodes]


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily) -> None:
    assert first.maps.keys() == second.maps.keys() and first.stages == second.stages
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            for key in left.weights:
                torch.testing.assert_close(left.weights[key], right.weights[key], rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = torchrun(SCRIPT, str(folder), *MODES)
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[subprocess.CompletedProcess[str]]]:
    """A job on two nodes that finished one mode, and lost the process of rank one in the middle of another."""
    folder = tmp_path_factory.mktemp("nodes")
    return folder, two_nodes(SCRIPT, str(folder), "online", f"{KILLED}:1")


def test_two_nodes_give_the_maps_of_one_process(killed: tuple[Path, list]) -> None:
    alone = calibrate("online")
    agree(sgfi.load(killed[0] / "online", alone.plan.graph), alone)


def test_a_killed_process_ends_the_job_on_every_node_and_leaves_what_was_finished(
    killed: tuple[Path, list], tmp_path: Path
) -> None:
    folder, (survivor, victim) = killed
    assert survivor.returncode != 0 and victim.returncode != 0
    assert "every process of the calibration to stay until the end" in survivor.stderr
    assert "SIGKILL" in victim.stderr
    assert not (folder / KILLED / MANIFEST).exists()
    with pytest.raises(StoreError, match="unfinished"):
        sgfi.load(folder / KILLED, plan().graph)
    shutil.copytree(folder / KILLED, tmp_path / KILLED)
    left = json.loads((tmp_path / KILLED / UNFINISHED).read_text())["nodes"]
    assert 0 < len(left) < len(plan().fitted)
    files = [tmp_path / KILLED / entry["file"] for entry in left.values()]
    written = [file.stat().st_mtime_ns for file in files]
    agree(calibrate(KILLED, checkpoint=tmp_path / KILLED), calibrate(KILLED))  # by any number of processes
    assert written == [file.stat().st_mtime_ns for file in files]


def test_the_same_command_on_both_nodes_resumes_a_killed_job(killed: tuple[Path, list]) -> None:
    folder, alone = killed[0], calibrate(KILLED)
    left = json.loads((folder / KILLED / UNFINISHED).read_text())["nodes"]
    files = [folder / KILLED / entry["file"] for entry in left.values()]
    written = [file.stat().st_mtime_ns for file in files]
    again = two_nodes(SCRIPT, str(folder), "online", f"{KILLED}:1")
    assert [node.returncode for node in again] == [0, 0], again
    agree(sgfi.load(folder / KILLED, alone.plan.graph), alone)
    assert written == [file.stat().st_mtime_ns for file in files]


def test_torchrun_restarts_a_job_that_lost_a_process(tmp_path: Path) -> None:
    done = torchrun("--max-restarts", "1", SCRIPT, str(tmp_path), f"{KILLED}:1")
    assert done.returncode == 0, done.stderr
    alone, folder = calibrate(KILLED), tmp_path / KILLED
    agree(sgfi.load(folder, alone.plan.graph), alone)
    written = [file.stat().st_mtime_ns for file in folder.glob("*.safetensors")]
    death = killed_once(folder).stat().st_mtime_ns
    assert min(written) < death < max(written)  # what was finished before was kept


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


def test_what_a_dead_rank_zero_said_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted process may look into torchrun's store before the new rank zero has written there."""
    monkeypatch.setattr(processes, "PAUSE", 0.01)
    with socket.socket() as dead, socket.socket() as alive:
        for each in (dead, alive):
            each.bind(("127.0.0.1", 0))
        alive.listen()
        said = iter([dead, dead, alive])
        store = SimpleNamespace(get=lambda key: str(next(said).getsockname()[1]).encode())
        assert processes._answering_port(store, "127.0.0.1") == alive.getsockname()[1]
        said = iter([dead, alive])
        monkeypatch.setattr(processes, "JOINING", -1.0)
        with pytest.raises(RuntimeError, match="rank zero did not answer"):
            processes._answering_port(store, "127.0.0.1")


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

"""Folders and files while they are written: owned by one process, whole at every moment, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.calibration.spill import PREFIX, SpillBuffer
from sgfi.errors import StoreError
from sgfi.storage import draft_of, files
from sgfi.storage.scratch import Busy, PathLock, own_folder
from tests.storage.test_folder import contents, family, graph, identical, inputs

HOLD = """
import sys
from pathlib import Path
from sgfi.storage.scratch import PathLock
lock = PathLock(Path(sys.argv[1]))
print("held", flush=True)
input()
"""
LEFT = "0123456789abcdef"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return sgfi.save(family(), tmp_path / "maps")


def test_a_lock_keeps_others_out_until_its_process_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Busy):
        PathLock(tmp_path)
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    PathLock(tmp_path).release()


def test_a_second_calibration_in_the_same_folder_is_told_so(tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    lock = PathLock(folder)
    with pytest.raises(StoreError, match="another calibration that is running"):
        sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=folder)
    assert not any(folder.iterdir())
    lock.release()
    sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=folder)
    identical(sgfi.load(folder, graph()), family())


def test_a_folder_where_a_calibration_runs_is_not_replaced(saved: Path) -> None:
    before, lock = contents(saved), PathLock(saved)
    with pytest.raises(StoreError, match="calibration is running"):
        sgfi.save(family("diagonal"), saved, overwrite=True)
    assert contents(saved) == before and os.listdir(saved.parent) == ["maps"]
    lock.release()
    sgfi.save(family("diagonal"), saved, overwrite=True)


def test_a_failed_calibration_gives_the_folder_back(tmp_path: Path) -> None:
    class Broken(list):
        def __iter__(self):
            raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted") as _held:  # the traceback keeps every frame alive
        sgfi.calibrate(family().plan, Broken([inputs()]), progress=False, checkpoint=tmp_path / "maps")
    sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=tmp_path / "maps")
    with pytest.raises(StoreError, match="another model, plan"):
        sgfi.calibrate(family().plan, [inputs(5)], progress=False, checkpoint=tmp_path / "maps")
    PathLock(tmp_path / "maps").release()


def test_a_kill_before_the_first_note_leaves_a_folder_that_can_be_taken_up(tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    (folder / f".calibration-{LEFT}.part.json").write_text("{")
    sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=folder)
    assert not [file.name for file in folder.iterdir() if "part" in file.name]
    identical(sgfi.load(folder, graph()), family())


def test_a_foreign_file_in_a_checkpoint_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.part").write_text("mine")
    with pytest.raises(StoreError, match="empty or new"):
        sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=tmp_path)
    assert (tmp_path / "thesis.part").read_text() == "mine"


def test_leftovers_are_removed_and_what_is_in_use_is_not(saved: Path) -> None:
    left = [saved.parent / f".maps-{LEFT}", saved.parent / f".maps-old-{LEFT}"]
    for folder in left:
        folder.mkdir()
        (folder / "000_input.safetensors").write_text("half")
    used, lock = own_folder(saved.parent, ".maps-")
    other = saved.parent / ".maps-mine"
    other.mkdir()
    sgfi.save(family(), saved, overwrite=True)
    assert not any(folder.exists() for folder in left) and used.is_dir() and other.is_dir()
    lock.release()


def test_spilled_states_of_a_killed_process_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / f"{PREFIX}{LEFT}"
    left.mkdir()
    (left / "1.safetensors").write_bytes(b"x" * 1000)
    buffer = SpillBuffer(0)
    assert not left.exists()
    buffer.put("node", 0, torch.ones(3))
    assert len(os.listdir(tmp_path)) == 1
    buffer.close()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o027])
def test_the_umask_is_respected(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        saved = sgfi.save(family(), tmp_path / "maps")
        sgfi.save(family(), saved, overwrite=True)
    finally:
        os.umask(before)
    assert saved.stat().st_mode & 0o777 == 0o777 & ~umask
    assert {file.stat().st_mode & 0o777 for file in saved.iterdir()} == {0o666 & ~umask}


def test_a_draft_is_written_through_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("sync"), real_sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *given: (steps.append("replace"), real_replace(*given)))
    with draft_of(tmp_path / "x.json") as draft:
        draft.write_text("1")
    assert steps == ["sync", "replace", "sync"] and os.listdir(tmp_path) == ["x.json"]
    with pytest.raises(OSError, match="not there"), draft_of(tmp_path / "x.json") as draft:
        draft.write_bytes(b"half" + (tmp_path / "not there").read_bytes())
    assert (tmp_path / "x.json").read_text() == "1" and os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_kill_at_any_rename_leaves_a_whole_folder(
    exchanges: bool, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each rename of an overwrite: the folder is there, old or new, where it can be loaded."""
    if not exchanges:
        monkeypatch.setattr(files, "exchange", lambda first, second: False)
    monkeypatch.setattr(files.shutil, "rmtree", lambda *_, **__: None)  # the process is gone
    real, count = os.replace, 0
    for limit in range(20):
        count = 0

        def replace(source: Path, goal: Path, limit: int = limit) -> None:
            nonlocal count
            count += 1
            if count > limit:
                raise SystemExit("killed")
            real(source, goal)

        monkeypatch.setattr(os, "replace", replace)
        with contextlib.suppress(SystemExit):
            sgfi.save(family("diagonal"), saved, overwrite=True)
        monkeypatch.setattr(os, "replace", real)
        loaded = sgfi.load(saved, graph())
        assert loaded.plan.boundary["act1"].operator.name in ("full", "diagonal")
        if count <= limit:
            break
    assert loaded.plan.boundary["act1"].operator.name == "diagonal" and count < 20

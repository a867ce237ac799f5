"""What a command does with odd names, odd numbers, a full disk and a signal."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError

from sgfi.storage import files


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def odd(root: Path, tmp_path: Path) -> Path:
    """Pictures with a dollar, a brace and bytes that are no UTF-8 in their names, and two that are too much."""
    folder = tmp_path / "pho$tos_{x}$"
    folder.mkdir()
    for name in (b"cost$ of $\\frac{.png", b"caf\xe9.png", b"new\nline.png"):
        shutil.copy(root / "one.png", os.fsencode(folder) + b"/" + name)
    (folder / "line.png").write_bytes((root / "one.png").read_bytes()[:60])
    os.mkfifo(folder / "pipe.png")
    return folder


@pytest.mark.parametrize("name", ["a.png", "a.npy", "a.safetensors", "a.svg"])
def test_odd_names(on_maps, maps: Path, odd: Path, name: str) -> None:
    outcome = on_maps("invert", maps, odd, "--out", odd / f"$out$_{name}")
    assert outcome.code == 0, outcome.all
    assert "line.png" in outcome.err and "pipe.png" in outcome.err and (odd / f"$out$_{name}").stat().st_size > 100


@pytest.mark.parametrize(
    "words",
    [["--batch-size", 0], ["--batch-size", -3], ["--limit", 0], ["--size", 100_000], ["--size", 0], ["--size", 10**30]],
)
def test_numbers_out_of_range(sgfi_command, model: str, root: Path, tmp_path: Path, words: list) -> None:
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words)
    assert outcome.code in (2, 3), outcome.all
    assert not (tmp_path / "maps").exists()


@pytest.mark.parametrize("partition", ["blocks99999999999999999999", "blocks0", "blocks"])
def test_block_sizes(sgfi_command, model: str, root: Path, tmp_path: Path, partition: str) -> None:
    words = ["--target", "three", "--boundaries", "one,add", "--partition", partition]
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words)
    assert outcome.code == (0 if partition.endswith("9") else 4), outcome.all


@pytest.mark.parametrize("operator", ["diagonal+rank999999999", "causal+999999999999", "diagonal+rank0"])
def test_operator_numbers(sgfi_command, model: str, root: Path, tmp_path: Path, operator: str) -> None:
    words = ["--target", "three", "--boundaries", "one,add", "--operator", operator]
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words)
    assert outcome.code == 4, outcome.all


@pytest.mark.parametrize("query", ["three:0-99999999", "three:" + "9" * 30, "three@" + "1," * 50_000 + "1"])
def test_long_queries(on_maps, maps: Path, root: Path, tmp_path: Path, query: str) -> None:
    outcome = on_maps("invert", maps, root / "one.png", "--query", query, "--out", tmp_path / "a.npy")
    assert outcome.code == 5 and len(outcome.err) < 2000, outcome.all[:500]


@pytest.mark.parametrize("name", ["a.png", "a.npy", "a.safetensors"])
@pytest.mark.parametrize("before", [None, b"mine"])
def test_a_full_disk_leaves_no_half_file(
    on_maps, maps: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: bytes | None
) -> None:
    from matplotlib.figure import Figure

    if before:
        (tmp_path / name).write_bytes(before)

    def half(*given: Any, **_: Any) -> None:
        file = next(item for item in given if isinstance(item, (str, Path)))
        Path(file).write_bytes(b"half")
        full()

    def half_rust(tensors: dict, file: Path, **_: Any) -> None:
        Path(file).write_bytes(b"half")
        raise SafetensorError("No space left on device (os error 28)")

    monkeypatch.setattr(Figure, "savefig", lambda self, *given, **more: half(*given))
    monkeypatch.setattr(np, "save", half)
    monkeypatch.setattr(files, "save_file", half_rust)
    outcome = on_maps("invert", maps, root / "one.png", "--out", tmp_path / name, "--force")
    assert (outcome.code == 8 and "No space left" in outcome.err) or "disk is full" in outcome.err, outcome.all
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == ({name: before} if before else {})


def test_not_enough_memory(on_maps, maps: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")):

        def short(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr("sgfi.cli.inversion.open_data", short)
        outcome = on_maps("invert", maps, root / "one.png", "--out", tmp_path / "a.npy")
        assert outcome.code == 9 and "--size" in outcome.err


def test_quality_after_the_default_calibration(sgfi_command, maps: Path) -> None:
    outcome = sgfi_command("maps", "info", maps, "--quality")
    assert outcome.code == 0 and "input" in outcome.out and "--preset aligned" in outcome.out


def test_shell_completion_can_be_installed(sgfi_command) -> None:
    assert "--install-completion" in sgfi_command("--help").out


SLEEPING = """
import signal, sys, time
for name, usual in {"SIGHUP": signal.SIG_DFL, "SIGINT": signal.default_int_handler}.items():
    signal.signal(getattr(signal, name), usual)  # a run under nohup or in the background hands them on as ignored
from pathlib import Path
import sgfi.cli.inversion as inversion
from sgfi.cli import main

ready = Path(sys.argv.pop())

def slow(*given):
    ready.touch()
    time.sleep(60)

inversion.open_data = slow
main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_ended_by_a_signal_like_by_ctrl_c(maps: Path, model: str, root: Path, tmp_path: Path, name: str) -> None:
    words = ["invert", str(maps), str(root / "one.png"), "--model", model, "--out", str(tmp_path / "a.npy")]
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPING, *words, "--quiet", str(ready)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(600):
            if ready.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and "Interrupted" in err, (process.returncode, out, err)
    assert not (tmp_path / "a.npy").exists()

"""``sgfi moments``: two parts gathered, merged and solved are the maps of ``sgfi calibrate``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from sgfi.cli.loading import open_family


def test_two_parts_make_the_maps_of_calibrate(sgfi_command, model: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = np.random.default_rng(0).standard_normal((12, 3, 8, 8)).astype(np.float32)
    for name, rows in (("all", inputs), ("a", inputs[:8]), ("b", inputs[8:])):
        np.save(f"{name}.npy", rows)
    quiet = ["--batch-size", 4, "--quiet"]
    here = ["--target", "three", "--boundaries", "one,add"]

    def run(*words: object, code: int = 0) -> str:
        outcome = sgfi_command(*words)
        assert outcome.code == code, outcome.all
        return outcome.out + outcome.err

    run("calibrate", model, "--data", "all.npy", "--out", "joint", *here, *quiet)
    for part in "ab":
        run("moments", "gather", model, "--data", f"{part}.npy", "--out", f"first-{part}", *here, *quiet)
    named = ["--model", model]
    assert "--model" in run("moments", "merge", "first-a", "first-b", "--out", "x", code=3)  # a file is not run unasked
    run("moments", "merge", "first-a", "first-b", "--out", "first", *named)
    run("moments", "solve", "first", "--out", "maps1", *named)
    for part in "ab":
        run("moments", "gather", model, "--data", f"{part}.npy", "--after", "maps1", "--out", f"second-{part}", *quiet)
    run("moments", "merge", "second-b", "second-a", "--out", "second", *named)
    run("moments", "solve", "second", "--after", "maps1", "--out", "maps2", *named)
    merged, joint = (open_family(tmp_path / name, model).family for name in ("maps2", "joint"))
    for name, maps in joint.maps.items():
        for own, other in zip(maps, merged.maps[name], strict=True):
            gain = own.unpacked["gain"]
            assert (gain - other.unpacked["gain"]).abs().max() <= 1e-6 * gain.abs().max()
    facts = run("moments", "info", "second")
    assert "12, on states, 2 parts" in facts and "number 2, after " in facts and "three" in facts
    run("moments", "solve", "first", "--out", "small", "--partition", "shared", "--operator", "diagonal", *named)
    assert torch.equal(
        open_family(tmp_path / "small", model).family.maps["input"][0].partition.groups.max(), torch.tensor(0)
    )
    assert "in both" in run("moments", "merge", "first-a", "first-a", "--out", "x", *named, code=7)
    assert "distributed=True" in run(
        "moments", "gather", model, "--data", "a.npy", "--out", "x", "--children", "online", *here, *quiet, code=7
    )
    assert "which exists" in run("moments", "merge", "first-a", "first-b", "--out", "first", *named, code=6)
    assert "moments.json" in run("moments", "info", "maps1", code=6)
    assert json.loads(Path("second/moments.json").read_text())["count"] == 12 and not Path("x").exists()

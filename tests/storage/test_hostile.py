"""A stranger's map folder: nothing outside it is read, nothing is built before its manifest is checked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import sgfi
from sgfi.errors import StoreError
from sgfi.storage import files, manifest, read_manifest
from sgfi.storage.schema import Misfit, check_depth
from tests.storage.test_folder import family, graph, inputs

CHANGES: dict[str, Callable[[dict], Any]] = {
    "absolute path": lambda m: m["files"]["act1"].update(file="/etc/passwd"),
    "parent folder": lambda m: m["files"]["act1"].update(file="../001_act1.safetensors"),
    "hidden": lambda m: m["files"]["act1"].update(file=".."),
    "file is a number": lambda m: m["files"]["act1"].update(file=3),
    "one file twice": lambda m: m["files"].update(conv2=m["files"]["act1"]),
    "no such node": lambda m: m["files"].update(other=m["files"]["act1"]),
    "a node without a file": lambda m: m["files"].pop("act1"),
    "bytes below zero": lambda m: m["files"]["act1"].update(bytes=-1),
    "checksum in other letters": lambda m: m["files"]["act1"].update(sha256="x" * 64),
    "huge input": lambda m: m["model"].update(input_shape=[3, 10**6, 10**6]),
    "negative size": lambda m: m["model"].update(input_shape=[2, -5, 6]),
    "a dtype that is an attribute of torch": lambda m: m["model"].update(dtype="hub"),
    "bound is text": lambda m: m["model"].update(bound="mask"),
    "children is a list": lambda m: m["calibration"].update(children=["true"]),
    "no diagnostics": lambda m: m["calibration"].pop("diagnostics"),
    "samples is text": lambda m: m["calibration"].update(samples="8"),
    "boundaries is a mapping": lambda m: m["plan"].update(boundaries={}),
    "a boundary is text": lambda m: m["plan"]["boundaries"].append("conv3"),
    "a boundary twice": lambda m: m["plan"]["boundaries"].append(m["plan"]["boundaries"][0]),
    "a child that is none": lambda m: m["plan"]["boundaries"][0].update(children=["relu"]),
    "a partition without a kind": lambda m: m["plan"]["boundaries"][0].update(partition={}),
    "target is a list": lambda m: m["plan"].update(target=["conv3"]),
    "an unknown key": lambda m: m.update(chec_sum="0" * 64),
    "precision": lambda m: m.update(precision="int4"),
    "versions": lambda m: m.update(versions={"torch": 2}),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return sgfi.save(family(), tmp_path / "maps")


def rewrite(folder: Path, change: Callable[[dict], Any], seal: bool = True) -> None:
    """Change a manifest as a stranger would, who can make a checksum too."""
    record = json.loads((folder / "manifest.json").read_text())
    change(record)
    (folder / "manifest.json").write_text(json.dumps(manifest.sealed(record) if seal else record))


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_that_does_not_fit_is_refused_before_anything_is_built(name: str, saved: Path) -> None:
    rewrite(saved, CHANGES[name])
    with pytest.raises(StoreError):
        read_manifest(saved)
    with pytest.raises(StoreError):
        sgfi.load(saved, graph())


def test_the_manifest_has_a_checksum_of_its_own(saved: Path) -> None:
    rewrite(saved, lambda m: m["calibration"].update(samples=9), seal=False)
    with pytest.raises(StoreError, match="checksum"):
        sgfi.load(saved, graph())
    rewrite(saved, lambda m: m.pop("checksum"), seal=False)  # as earlier versions wrote it
    assert sgfi.load(saved, graph()).samples == 9


def test_a_link_out_of_the_folder_is_refused(saved: Path) -> None:
    file = saved / "001_act1.safetensors"
    file.rename(saved.parent / "elsewhere.safetensors")
    file.symlink_to(saved.parent / "elsewhere.safetensors")
    for stream in (False, True):
        with pytest.raises(StoreError, match="inside"):
            sgfi.load(saved, graph(), stream=stream)
    with pytest.raises(StoreError, match="inside"):
        sgfi.invert(sgfi.load(saved, graph(), verify=False), inputs(1))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_place_of_a_file_does_not_wait(saved: Path) -> None:
    (saved / "manifest.json").rename(saved / "kept")
    os.mkfifo(saved / "manifest.json")
    with pytest.raises(StoreError, match="not a regular file"):
        sgfi.load(saved, graph())
    (saved / "manifest.json").unlink()
    (saved / "kept").rename(saved / "manifest.json")
    (saved / "001_act1.safetensors").unlink()
    os.mkfifo(saved / "001_act1.safetensors")
    with pytest.raises(StoreError, match="001_act1"):
        sgfi.load(saved, graph())


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "9" * 10_000 + "}", '{"format": 1e999}', "\ud800"])
def test_nesting_and_numbers_are_bounded(text: str, saved: Path) -> None:
    (saved / "manifest.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(StoreError):
        sgfi.load(saved, graph())


def test_a_deep_provenance_and_a_long_manifest_are_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list = []
    for _ in range(70):
        deep = [deep]
    with pytest.raises(Misfit):
        check_depth(deep, "here")
    rewrite(saved, lambda m: m["provenance"].update(deep=deep))
    with pytest.raises(StoreError, match="nested"):
        read_manifest(saved)
    monkeypatch.setattr(manifest, "LONGEST", 1000)
    with pytest.raises(StoreError, match="more than 1000 bytes"):
        read_manifest(saved)


def _other_name(tensors: dict) -> dict:
    return {"0.gian" if key == "0.gain" else key: value for key, value in tensors.items()}


HARM: dict[str, Callable[[dict], dict]] = {
    "not a number": lambda t: {**t, "0.gain": t["0.gain"] * float("nan")},
    "infinite": lambda t: {**t, "1.gain": t["1.gain"].index_fill(0, torch.tensor([3]), complex("inf"))},
    "another shape": lambda t: {**t, "0.gain": t["0.gain"][:, :3].contiguous()},
    "fewer bins": lambda t: {**t, "0.gain": t["0.gain"][:1].contiguous()},
    "another type": lambda t: {**t, "0.gain": t["0.gain"].real.contiguous()},
    "another name": _other_name,
    "one more": lambda t: {**t, "0.more": torch.ones(1)},
    "no number": lambda t: {**t, "first.gain": t["0.gain"].clone()},
    "a gap": lambda t: {**t, "7.gain": t["0.gain"].clone()},
    "nothing": lambda t: {},
}


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", HARM)
def test_tensors_are_checked_for_name_shape_type_and_finiteness(name: str, verify: bool, saved: Path) -> None:
    """With a checksum that fits: it is the stranger's own."""
    file = saved / "001_act1.safetensors"
    save_file(HARM[name](load_file(file)), file)
    entry = {"bytes": file.stat().st_size, "sha256": files.sha256(file)}
    rewrite(saved, lambda m: m["files"]["act1"].update(entry))
    with pytest.raises(StoreError, match="act1"):
        sgfi.invert(sgfi.load(saved, graph(), verify=verify), inputs(1))


@pytest.mark.parametrize("stream", [False, True])
def test_without_verify_a_flipped_byte_is_found_when_the_node_is_first_used(stream: bool, saved: Path) -> None:
    loaded = sgfi.load(saved, graph(), verify=False, stream=stream)
    file = saved / "001_act1.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with pytest.raises(StoreError, match="checksum"):
        sgfi.invert(loaded, inputs(1))


def test_a_streamed_file_that_changes_later_is_found_too(saved: Path) -> None:
    loaded = sgfi.load(saved, graph(), stream=True)
    before = sgfi.invert(loaded, inputs(1)).value
    file = saved / "001_act1.safetensors"
    data = bytearray(file.read_bytes())
    data[-2] ^= 4
    draft = saved / "draft"
    draft.write_bytes(data)
    draft.replace(file)
    with pytest.raises(StoreError, match="checksum"):
        sgfi.invert(loaded, inputs(1))
    data[-2] ^= 4
    file.write_bytes(data)
    assert torch.equal(sgfi.invert(loaded, inputs(1)).value, before)


@pytest.mark.parametrize("path", [3, None, object(), ["maps"], b"\xff"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(StoreError):
        sgfi.load(path, graph())
    if not isinstance(path, bytes):
        with pytest.raises(StoreError, match="path"):
            sgfi.save(family(), path)
        if path is not None:
            with pytest.raises(StoreError, match="path"):
                sgfi.calibrate(family().plan, [inputs()], progress=False, checkpoint=path)
    with pytest.raises(StoreError, match="family"):
        sgfi.save(path, "maps")

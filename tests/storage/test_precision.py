"""Families kept small, and families kept on disk: the same inverses with less of everything."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import sgfi
from sgfi.errors import StoreError
from sgfi.spectral.quantise import Packed
from sgfi.storage import files, read_manifest, verify_files

SETTINGS: dict[str, dict[str, Any]] = {
    "full": {},
    "diagonal": {"operator": "diagonal"},
    "low rank": {"operator": "diagonal+rank4"},
    "shared": {"partition": "shared"},
}


class Net(nn.Module):
    """Wide enough for bytes to matter, with even and odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 52, 3, padding=1), nn.Conv2d(52, 56, 3, stride=2, padding=1)
        self.three = nn.Conv2d(56, 18, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.three(torch.tanh(self.two(torch.tanh(self.one(x)))))


@cache
def graph() -> sgfi.TensorGraph:
    torch.manual_seed(0)
    return sgfi.capture(Net().eval(), torch.zeros(2, 3, 6, 9))


@cache
def family(setting: str = "full") -> sgfi.MapFamily:
    plan = sgfi.plan(graph(), target="three", boundaries=["one", "two"], **SETTINGS[setting])
    x = torch.randn(48, 3, 6, 9, generator=torch.Generator().manual_seed(1))
    return sgfi.calibrate(plan, [x], children="online", progress=False)


def query() -> Tensor:
    return torch.randn(4, 3, 6, 9, generator=torch.Generator().manual_seed(2))


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("precision", "allowed"), [("half", 0.003), ("int8", 0.06)])
def test_a_smaller_family_gives_nearly_the_same_inverses(
    setting: str, precision: str, allowed: float, tmp_path: Path
) -> None:
    before = family(setting)
    small = sgfi.load(sgfi.save(before, tmp_path / "small", precision=precision), graph())
    assert small.precision == precision and before.precision == "full"
    assert small.bytes <= before.bytes / (1.6 if setting != "diagonal" else 1)
    for stage in ("first", "final"):
        exact, rounded = (sgfi.invert(maps, query(), channels=[1, 4], stage=stage).value for maps in (before, small))
        assert float((exact - rounded).norm() / exact.norm()) <= (allowed if setting != "diagonal" else 0)
    verify_files(tmp_path / "small")


def test_bytes_are_a_quarter_and_stay_bytes(tmp_path: Path) -> None:
    sgfi.save(family(), tmp_path / "full")
    small = sgfi.load(sgfi.save(family(), tmp_path / "small", precision="int8"), graph())
    assert family().bytes / small.bytes > 4
    wide = [wiener.weights["gain"] for name in ("one", "two") for wiener in small.maps[name]]
    assert all(isinstance(gain, Packed) and gain.values.dtype == torch.int8 for gain in wide)
    narrow = small.maps["input"][0].weights["gain"]
    assert isinstance(narrow, Packed) and narrow.values.dtype == torch.float16
    opened = small.maps["two"][0].unpacked["gain"]
    assert torch.equal(opened, wide[2][:])  # type: ignore[index]
    again = sgfi.load(sgfi.save(small, tmp_path / "again"), graph())
    assert again.precision == "int8"
    assert torch.equal(sgfi.invert(small, query()).value, sgfi.invert(again, query()).value)


def test_what_was_loaded_can_be_packed_and_what_was_packed_cannot(tmp_path: Path) -> None:
    loaded = sgfi.load(sgfi.save(family(), tmp_path / "full"), graph())
    small = sgfi.load(sgfi.save(loaded, tmp_path / "small", precision="int8"), graph())
    with pytest.raises(StoreError, match="full precision"):
        sgfi.save(small, tmp_path / "back", precision="half")
    with pytest.raises(StoreError, match="'full', 'half', 'int8'"):
        sgfi.save(family(), tmp_path / "back", precision="int4")
    assert not (tmp_path / "back").exists()


def test_maps_that_do_not_remember_their_sources_are_not_made_int8(tmp_path: Path) -> None:
    folder = sgfi.save(family(), tmp_path / "old")
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"].values():
        file = folder / entry["file"]
        save_file({key: value for key, value in load_file(file).items() if not key.endswith("sources")}, file)
        entry |= {"bytes": file.stat().st_size, "sha256": files.sha256(file)}
    del manifest["precision"], manifest["checksum"]  # as earlier versions wrote it
    (folder / "manifest.json").write_text(json.dumps(manifest))
    old = sgfi.load(folder, graph(), verify=False)
    assert torch.equal(sgfi.invert(old, query()).value, sgfi.invert(family(), query()).value)
    with pytest.raises(StoreError, match="remember their sources"):
        sgfi.save(old, tmp_path / "small", precision="int8")
    assert sgfi.load(sgfi.save(old, tmp_path / "half", precision="half"), graph()).precision == "half"


def test_an_earlier_reader_refuses_packed_maps_by_number(tmp_path: Path) -> None:
    assert read_manifest(sgfi.save(family(), tmp_path / "full"))["format"] == 1
    assert read_manifest(sgfi.save(family(), tmp_path / "small", precision="half"))["format"] == 2


def test_names_inside_the_files_stay(tmp_path: Path) -> None:
    """What released versions wrote is read by these names, and what is written now must be readable by them."""
    expected = {"full": {"0.gain", "0.sources"}, "half": {"0.gain.values", "0.gain.scales"}}
    for precision, names in {**expected, "int8": expected["half"]}.items():
        folder = sgfi.save(family(), tmp_path / precision, precision=precision)
        tensors = load_file(next(folder.glob("*_two.safetensors")))
        assert tensors.keys() == names | {name.replace("0.", "1.") for name in names}
    files.write_tensors(tmp_path / "double", {"0.gain": torch.ones(3, dtype=torch.complex128)}, {})
    assert load_file(tmp_path / "double").keys() == {"0.gain.real_imaginary"}
    assert files.read_tensors(tmp_path / "double")["0.gain"].dtype == torch.complex128


@pytest.mark.parametrize("harm", ["values", "scales"])
@pytest.mark.parametrize("stream", [False, True])
def test_packed_files_with_parts_missing_or_of_other_shape(harm: str, stream: bool, tmp_path: Path) -> None:
    folder = sgfi.save(family(), tmp_path / "small", precision="int8")
    file = next(folder.glob("*_two.safetensors"))
    tensors = load_file(file)
    for broken in (
        {key: value for key, value in tensors.items() if key != f"0.gain.{harm}"},
        {**tensors, f"0.gain.{harm}": tensors[f"0.gain.{harm}"][1:].clone()},
    ):
        save_file(broken, file)
        with pytest.raises(StoreError):
            sgfi.load(folder, graph(), stream=stream)  # the checksum
        with pytest.raises(StoreError, match="_two"):
            sgfi.invert(sgfi.load(folder, graph(), verify=False, stream=stream), query())


# ------------------------------------------------------------------- from disk, node by node


@pytest.mark.parametrize("precision", ["full", "int8"])
def test_a_streamed_family_answers_like_a_loaded_one(precision: str, tmp_path: Path) -> None:
    folder = sgfi.save(family(), tmp_path / "maps", precision=precision)
    loaded, streamed = (sgfi.load(folder, graph(), stream=stream) for stream in (False, True))
    for stage in ("raw", "first", "final"):
        expected, answer = (sgfi.invert(maps, query(), stage=stage) for maps in (loaded, streamed))
        assert all(torch.equal(expected.states[name], answer.states[name]) for name in expected.states)
    assert repr(loaded) == repr(streamed)
    assert "one" in streamed.maps and "three" not in streamed.maps


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_streamed_family_holds_one_node_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sgfi.save(family(), tmp_path / "maps")
    streamed = sgfi.load(folder, graph(), stream=True)
    held: list[set[str]] = []
    read = files.read_node

    def watched(*given: Any) -> Any:
        maps = read(*given)
        lines = Path("/proc/self/maps").read_text().splitlines()
        held.append({line.split("/")[-1] for line in lines if str(folder) in line})
        return maps

    monkeypatch.setattr(files, "read_node", watched)
    sgfi.invert(streamed, query())
    assert [len(files) for files in held] == [1, 1, 1]
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_a_streamed_family_whose_folder_is_gone(tmp_path: Path) -> None:
    folder = sgfi.save(family(), tmp_path / "maps")
    streamed = sgfi.load(folder, graph(), stream=True)
    next(folder.glob("*_two.safetensors")).unlink()
    with pytest.raises(StoreError, match="two"):
        sgfi.invert(streamed, query())

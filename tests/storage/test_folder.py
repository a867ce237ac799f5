"""Map families on disk: exact, memory-mapped, whole or not there at all."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

import sgfi
from sgfi import storage
from sgfi.errors import PlanError, SgfiError, StoreError
from sgfi.storage import files
from tests.analytic import tiny

GROUPS = [0, 1, 1, 2, 0, 2]
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {},
    "diagonal": {"operator": "diagonal"},
    "gamma": {"operator": "gamma"},
    "low rank": {"operator": "diagonal+rank2"},
    "shared": {"partition": "shared"},
    "custom": {"partition": {"conv2": GROUPS}, "operator": {"act1": "diagonal+rank3", "input": "gamma"}},
    "axes": {"axes": {"act1": 2}},
}


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.act1 = nn.Conv2d(2, 4, 3, padding=1), nn.Tanh()
        self.conv2, self.conv3 = nn.Conv2d(4, 3, 3, stride=2, padding=1), nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(torch.tanh(self.conv2(self.act1(self.conv1(x)))))


@cache
def model() -> Chain:
    torch.manual_seed(5)
    return Chain().eval()


def inputs(count: int = 8) -> Tensor:
    return torch.randn(count, 2, 5, 6, generator=torch.Generator().manual_seed(count))


@cache
def graph() -> sgfi.TensorGraph:
    return sgfi.capture(model(), inputs(2))


@cache
def family(setting: str = "full", children: str = "true") -> sgfi.MapFamily:
    plan = sgfi.plan(graph(), target="conv3", boundaries=["act1", "conv2"], **SETTINGS[setting])
    return sgfi.calibrate(
        plan, [inputs()], children=children, progress=False, provenance={"data": "random", "seed": 8, "size": [5, 6]}
    )


def identical(first: sgfi.MapFamily, second: sgfi.MapFamily) -> None:
    assert list(first.maps) == list(second.maps)
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            assert left.weights.keys() == right.weights.keys()
            assert all(torch.equal(left.weights[key], right.weights[key]) for key in left.weights)
            assert all(left.weights[key].dtype == right.weights[key].dtype for key in left.weights)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return sgfi.save(family(), tmp_path / "maps")


# ------------------------------------------------------------------- round trip


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_loaded_is_what_was_saved(setting: str, tmp_path: Path) -> None:
    before = family(setting)
    after = sgfi.load(sgfi.save(before, tmp_path / "deep" / "maps"), model() if setting == "full" else graph())
    identical(before, after)
    assert (after.ridge, after.children, after.samples) == (before.ridge, before.children, before.samples)
    assert after.diagnostics == before.diagnostics and after.provenance == before.provenance
    assert after.plan.description == before.plan.description
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["maps"]
    x = inputs(3)
    for stage in ("raw", "first", "final"):
        expected, answer = (sgfi.invert(f, x, channels=[1], stage=stage) for f in (before, after))
        assert all(torch.equal(expected.states[name], answer.states[name]) for name in expected.states)


def test_a_graph_serves_as_well_as_a_model(saved: Path) -> None:
    assert sgfi.load(saved, graph()).plan.graph is graph()


def test_a_double_precision_family(tmp_path: Path) -> None:
    for name in ("chain", "pooled"):
        tiny_model = tiny(name)
        plan = sgfi.plan(
            sgfi.capture(tiny_model, tiny_model.inputs(2)),
            target=tiny_model.target,
            boundaries=list(tiny_model.boundaries),
            operator={"input": "diagonal+rank2"},
        )
        before = sgfi.calibrate(plan, [tiny_model.inputs(5)], progress=False)
        after = sgfi.load(sgfi.save(before, tmp_path / name), tiny_model)
        identical(before, after)
        x = tiny_model.inputs(2, seed=3)
        assert torch.equal(sgfi.invert(before, x).value, sgfi.invert(after, x).value)


def test_the_manifest_says_everything_without_the_weights(saved: Path) -> None:
    for file in saved.glob("*.safetensors"):
        file.unlink()
    record = storage.read_manifest(saved)
    assert record == json.loads((saved / "manifest.json").read_text())
    assert record["format"] == 1 and record["model"]["fingerprint"] == graph().fingerprint
    assert record["model"]["class"].endswith("Chain") and record["model"]["input_shape"] == [2, 5, 6]
    assert record["model"]["dtype"] == "float32" and record["model"]["bound"] == []
    assert record["plan"]["target"] == "conv3" and "ortho" in record["fft"]
    nodes = {entry["name"]: entry for entry in record["plan"]["boundaries"]}
    assert list(nodes) == ["input", "act1", "conv2", "conv3"]
    assert nodes["act1"]["channel_axis"] == 1 and nodes["act1"]["coord_axes"] == [2, 3]
    assert nodes["act1"]["partition"] == {"kind": "singleton", "bins": 20, "groups": 20}
    assert nodes["act1"]["operator"] == "full" and nodes["act1"]["children"] == ["conv2"]
    fit = record["calibration"]
    assert (fit["ridge"], fit["children"], fit["stages"], fit["samples"]) == (0.01, "true", 2, 8)
    assert record["provenance"] == {"data": "random", "seed": 8, "size": [5, 6]}
    assert {"python", "torch", "numpy", "safetensors"} <= set(record["versions"])
    assert set(record["files"]) == {"input", "act1", "conv2"}
    assert all({"file", "bytes", "sha256"} <= set(entry) for entry in record["files"].values())


def test_one_file_a_node_with_both_maps(saved: Path) -> None:
    names = sorted(file.name for file in saved.iterdir())
    assert names == ["000_input.safetensors", "001_act1.safetensors", "002_conv2.safetensors", "manifest.json"]
    with safe_open(saved / names[1], "pt") as file:
        assert sorted(file.keys()) == ["0.gain", "1.gain"] and file.metadata() == {"node": "act1"}
        assert file.get_slice("0.gain").get_shape() == [20, 4, 4]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_weights_stay_in_the_file(saved: Path) -> None:
    loaded = sgfi.load(saved, graph())
    mapped = Path("/proc/self/maps").read_text()
    for name, maps in loaded.maps.items():
        file = next(saved.glob(f"*_{name}.safetensors"))
        spans = [line.split()[0].split("-") for line in mapped.splitlines() if line.endswith(str(file))]
        assert spans, name
        for weights in (wiener_map.weights["gain"] for wiener_map in maps):
            assert any(int(a, 16) <= weights.data_ptr() < int(b, 16) for a, b in spans), name


def test_a_finished_checkpoint_is_a_map_folder(tmp_path: Path) -> None:
    plan = family().plan
    fitted = sgfi.calibrate(plan, [inputs()], progress=False, checkpoint=tmp_path / "maps", provenance={"seed": 8})
    after = sgfi.load(tmp_path / "maps", model())
    identical(family(), after)
    identical(fitted, after)
    assert after.provenance == {"seed": 8}
    assert after.schedule == fitted.schedule and after.schedule["passes"] == 2
    sgfi.save(after, tmp_path / "copy")
    assert sgfi.load(tmp_path / "copy", model()).schedule == fitted.schedule


# ------------------------------------------------------------------- writing


def test_an_existing_path_is_refused_and_left(saved: Path) -> None:
    before = contents(saved)
    with pytest.raises(StoreError, match="overwrite=True"):
        sgfi.save(family("diagonal"), saved)
    assert contents(saved) == before


def test_overwrite_replaces_the_whole_folder(saved: Path) -> None:
    (saved / "099_stale.safetensors").write_bytes(b"old")
    sgfi.save(family("diagonal"), saved, overwrite=True)
    identical(family("diagonal"), sgfi.load(saved, graph()))
    assert not (saved / "099_stale.safetensors").exists()
    assert [p.name for p in saved.parent.iterdir()] == ["maps"]


def test_a_family_can_be_saved_over_the_files_it_is_mapped_from(saved: Path) -> None:
    loaded = sgfi.load(saved, graph())
    sgfi.save(loaded, saved, overwrite=True)
    identical(loaded, family())
    identical(sgfi.load(saved, graph()), family())


def test_overwrite_does_not_throw_away_what_is_no_map_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    (tmp_path / "note").write_text("mine")
    for name in ("thesis", "note"):
        with pytest.raises(StoreError, match="something else"):
            sgfi.save(family(), tmp_path / name, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "mine" == (tmp_path / "note").read_text()
    (tmp_path / "empty").mkdir()
    sgfi.save(family(), tmp_path / "empty", overwrite=True)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_leaves_nothing_behind(
    error: Exception, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if existing:
        sgfi.save(family("diagonal"), tmp_path / "maps")
    before, real, count = contents(tmp_path), files.save_file, []

    def full(tensors: dict, file: Path, **more: Any) -> None:
        count.append(file)
        if len(count) == 2:
            Path(file).write_bytes(b"half")
            raise error
        real(tensors, file, **more)

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(StoreError, match="No space left"):
        sgfi.save(family(), tmp_path / "maps", overwrite=existing)
    assert contents(tmp_path) == before and len(count) == 2
    assert len(list(tmp_path.iterdir())) == existing
    if existing:
        identical(sgfi.load(tmp_path / "maps", graph()), family("diagonal"))


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_an_overwrite_that_fails_at_the_last_step_puts_the_old_folder_back(
    error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = contents(saved.parent), os.replace

    def replace(source: Any, goal: Any) -> None:
        if Path(goal) == saved and Path(source).name.startswith(".maps-") and Path(source).parent == saved.parent:
            raise error
        real(source, goal)

    monkeypatch.setattr(files.os, "replace", replace)
    monkeypatch.setattr(files, "exchange", lambda first, second: False)  # a file system that cannot
    with pytest.raises((StoreError, KeyboardInterrupt)):
        sgfi.save(family("diagonal"), saved, overwrite=True)
    assert contents(saved.parent) == before and [p.name for p in saved.parent.iterdir()] == ["maps"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="room and permission"):
        sgfi.save(family(), tmp_path / "file" / "maps")


def test_provenance_must_be_json(tmp_path: Path) -> None:
    """Told before anything is fitted or written."""
    with pytest.raises(SgfiError, match="provenance"):
        sgfi.calibrate(
            family().plan, [inputs()], progress=False, provenance={"tensor": inputs()}, checkpoint=tmp_path / "maps"
        )
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------- damaged folders


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-16])


def alter(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "message"),
    [(Path.unlink, "no such file"), (truncate, "bytes"), (alter, "checksum")],
    ids=["missing", "truncated", "altered"],
)
def test_damaged_map_files_are_named(harm: Callable[[Path], None], message: str, saved: Path) -> None:
    harm(saved / "001_act1.safetensors")
    with pytest.raises(StoreError, match=message) as refused:
        sgfi.load(saved, graph())
    assert "001_act1" in str(refused.value)
    with pytest.raises(StoreError, match="001_act1"):
        storage.verify_files(saved)


def test_a_truncated_file_is_told_even_without_checksums(saved: Path) -> None:
    truncate(saved / "001_act1.safetensors")
    with pytest.raises(StoreError, match="001_act1"):
        sgfi.invert(sgfi.load(saved, graph(), verify=False), inputs(1))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "model": 3}', "\x00\x01", '{"fromat": 1}']
)
def test_broken_manifests(text: str, saved: Path) -> None:
    (saved / "manifest.json").write_text(text)
    with pytest.raises(StoreError):
        sgfi.load(saved, graph())


def test_another_format_version(saved: Path) -> None:
    record = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(StoreError, match=r"map format 1, 2, 3 or 4; got 99"):
        sgfi.load(saved, graph())


def test_missing_folders_and_other_files(saved: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, saved / "manifest.json"):
        with pytest.raises(StoreError, match=r"manifest\.json"):
            sgfi.load(path, graph())


# ------------------------------------------------------------------- other models


def test_other_weights_are_refused_with_both_fingerprints(saved: Path) -> None:
    other = copy.deepcopy(model())
    with torch.no_grad():
        other.conv2.bias[0] += 1e-3
    changed = sgfi.capture(other, inputs(2))
    with pytest.raises(StoreError) as refused:
        sgfi.load(saved, other)
    assert graph().fingerprint[:16] in str(refused.value) and changed.fingerprint[:16] in str(refused.value)
    identical(sgfi.load(saved, other, force=True), family())


def test_another_architecture_is_refused_even_by_force(saved: Path) -> None:
    other = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh()).eval()
    for force in (False, True):
        with pytest.raises(StoreError):
            sgfi.load(saved, other, force=force)
    wider = Chain()
    wider.conv1, wider.conv2 = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 3, 3, stride=2, padding=1)
    with pytest.raises(StoreError, match="act1"):
        sgfi.load(saved, wider.eval(), force=True)


def test_something_that_is_no_model(saved: Path) -> None:
    with pytest.raises(StoreError, match="Module"):
        sgfi.load(saved, {"weights": 1})  # type: ignore[arg-type]
    with pytest.raises(SgfiError, match="evaluation mode"):
        sgfi.load(saved, copy.deepcopy(model()).train())


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.out(torch.tanh(self.fc(x)) * mask)


def test_a_bound_graph_must_be_captured_by_the_caller(tmp_path: Path) -> None:
    masked, mask = Masked().eval(), torch.tensor([[[1.0], [0.0]]])
    bound = sgfi.capture(masked, torch.randn(2, 2, 3), bound={"mask": mask})
    bound_family = sgfi.calibrate(
        sgfi.plan(bound, target="out", boundaries=["fc"]), [torch.randn(5, 2, 3)], progress=False
    )
    sgfi.save(bound_family, tmp_path / "maps")
    with pytest.raises(StoreError, match=r"bound=.*mask"):
        sgfi.load(tmp_path / "maps", masked)
    identical(sgfi.load(tmp_path / "maps", bound), bound_family)
    other = sgfi.capture(masked, torch.randn(2, 2, 3), bound={"mask": 1 - mask})
    with pytest.raises(StoreError, match="fingerprint"):
        sgfi.load(tmp_path / "maps", other)


def test_a_loaded_family_refuses_what_the_fitted_one_refuses(saved: Path) -> None:
    loaded = sgfi.load(saved, graph())
    with pytest.raises(PlanError, match="among the boundaries"):
        sgfi.invert(loaded, inputs(2), target="conv1")


def test_weights_changed_after_the_fit_are_noticed(tmp_path: Path) -> None:
    """In memory, in the manifest, and when the same checkpoint folder is asked for again."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 4, 3)).eval()
    x = torch.randn(6, 2, 8, 8)
    plan = sgfi.plan(sgfi.capture(model, x), "1", ["0"])
    family = sgfi.calibrate(plan, [x], progress=False, checkpoint=tmp_path / "ck")
    old = family.fingerprint
    with torch.no_grad():
        model[0].weight.mul_(2)
    with pytest.raises(SgfiError, match="changed since"):
        sgfi.invert(family, x)
    with pytest.raises(SgfiError, match="another model"):
        sgfi.calibrate(plan, [x], progress=False, checkpoint=tmp_path / "ck")
    sgfi.save(family, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "manifest.json").read_text())["model"]["fingerprint"] == old
    with pytest.raises(SgfiError, match="checkpoint"):
        sgfi.load(tmp_path / "saved", model)
    afresh = sgfi.calibrate(plan, [x], progress=False)
    assert afresh.fingerprint != old
    sgfi.invert(afresh, x)


def test_a_gauge_is_not_lost_in_silence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gauge"):
        sgfi.save(family().in_gauge("additive"), tmp_path / "a")
    assert not (tmp_path / "a").exists() and sgfi.save(family(), tmp_path / "a").is_dir()

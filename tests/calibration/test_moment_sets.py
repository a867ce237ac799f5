"""Moments as artefacts: merged equals joint, solved again without data, and what cannot be is refused."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.calibration import MomentSet, gather_moments, load_moments, save_moments
from sgfi.errors import CalibrationError, StoreError
from sgfi.storage.manifest import sealed
from tests.analytic import captured, tiny

NAMES = ["chain", "fork", "tokens"]


@cache
def plan(name: str = "chain", **options: str) -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(captured(name), model.target, list(model.boundaries), axes=model.channel_axis, **options)


def batches(name: str = "chain", count: int = 18) -> list[Tensor]:
    return list(tiny(name).inputs(count).split(3))


@cache
def whole(name: str = "chain") -> MomentSet:
    return gather_moments(plan(name), batches(name), progress=False)


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily, tolerance: float = 1e-6) -> None:
    """Every weight of every map, relative to the largest of its map."""
    assert list(first.maps) == list(second.maps)
    for name, maps in first.maps.items():
        assert len(maps) == len(second.maps[name])
        for own, other in zip(maps, second.maps[name], strict=True):
            for key, weight in own.unpacked.items():
                difference = (weight - other.unpacked[key]).abs().max()
                assert difference <= tolerance * weight.abs().max(), (name, key)


@pytest.mark.parametrize("name", NAMES)
def test_first_maps_of_merged_shards_are_those_of_a_joint_calibration(name: str) -> None:
    data = batches(name)
    shards = [gather_moments(plan(name), data[start::3], progress=False) for start in range(3)]
    merged = shards[2].merge(shards[0], shards[1])
    joint = sgfi.calibrate(plan(name), data, stages=1, progress=False)
    agree(merged.solve(), joint)
    assert merged.count == 18 and len(merged.samples) == 18
    assert shards[2].count == 6  # the parts are left as they were
    assert merged.solve().diagnostics["input"][0].keys() == joint.diagnostics["input"][0].keys()


@pytest.mark.parametrize("on", ["states", "tangents2"])
def test_corrections_in_a_second_round_are_those_of_a_joint_calibration(on: str, tmp_path: Path) -> None:
    data = batches()
    joint = sgfi.calibrate(plan(), data, on=on, progress=False)
    first, second = (
        gather_moments(plan(), data[:4], on=on, progress=False),
        gather_moments(plan(), data[4:], on=on, progress=False),
    )
    maps = first.merge(second).solve()
    sgfi.save(maps, tmp_path / "first")
    maps = sgfi.load(tmp_path / "first", captured("chain"))  # on the way between machines
    rounds = [gather_moments(maps.plan, part, maps, on=on, progress=False) for part in (data[4:], data[:4])]
    family = rounds[0].merge(rounds[1]).solve(after=maps)
    agree(family, joint)
    assert family.stages == 2 and family.settings["stages"] == 2
    if on != "states":
        assert torch.allclose(torch.tensor(family.mean), torch.tensor(joint.mean), atol=1e-9)
    x = data[0]
    assert torch.allclose(sgfi.invert(family, x).value, sgfi.invert(joint, x).value, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"ridge": 0.3},
        {"partition": "shared"},
        {"partition": "blocks2"},
        {"operator": "diagonal"},
        {"operator": "gamma"},
        {"operator": "diagonal+rank2", "ridge": 0.1},
        {"operator": "diagonal", "partition": "shared"},
    ],
    ids=str,
)
def test_solving_again_is_fitting_again(options: dict[str, Any]) -> None:
    ridge = options.get("ridge", 0.01)
    changes = {key: value for key, value in options.items() if key != "ridge"}
    joint = sgfi.calibrate(plan(**changes), batches(), ridge=ridge, stages=1, progress=False)
    solved = whole().solve(**options)
    agree(solved, joint)
    assert [b.operator.name for b in solved.plan.boundary.values()] == [
        b.operator.name for b in joint.plan.boundary.values()
    ]


def test_later_data_and_corrections_are_solved_again_too() -> None:
    data = batches()
    maps = (
        gather_moments(plan(), data[:4], progress=False).merge(gather_moments(plan(), data[4:], progress=False)).solve()
    )
    second = gather_moments(plan(), data, maps, progress=False)
    joint = sgfi.calibrate(plan(), data, progress=False)
    other = second.solve(ridge=0.5, after=maps)
    assert torch.equal(other.maps["input"][0].unpacked["gain"], maps.maps["input"][0].unpacked["gain"])
    assert not torch.allclose(other.maps["input"][1].unpacked["gain"], joint.maps["input"][1].unpacked["gain"])
    for wrong in ({}, {"after": joint}, {"after": whole().solve(ridge=0.02)}):
        with pytest.raises(CalibrationError, match="1 maps a node they were gathered on"):
            second.solve(**wrong)
    with pytest.raises(CalibrationError, match="earlier maps for a correction map"):
        second.solve(partition="shared", after=maps)
    with pytest.raises(CalibrationError, match="no earlier maps"):
        whole().solve(after=maps)


def test_what_does_not_add_is_refused() -> None:
    data = batches()
    with pytest.raises(CalibrationError, match=r"distributed=True"):
        gather_moments(plan(), data, children="online", progress=False)
    with pytest.raises(CalibrationError, match="leave-one-out needs the samples"):
        whole().solve("auto")
    with pytest.raises(CalibrationError, match=r"not counted yet.*3 of 3 in both"):
        whole().merge(gather_moments(plan(), data[1:2], progress=False))
    with pytest.raises(CalibrationError, match="the same plan"):
        whole().merge(gather_moments(plan(partition="shared"), batches(count=36)[6:], progress=False))
    with pytest.raises(CalibrationError, match="of the same kind"):
        whole().merge(gather_moments(plan(), batches(count=36)[6:], on="tangents", progress=False))
    with pytest.raises(CalibrationError, match="the same model"):
        whole().merge(gather_moments(plan("fork"), batches("fork", 6), progress=False))
    small = gather_moments(plan(operator="diagonal", partition="shared"), data, progress=False)
    for options in ({"operator": "full"}, {"partition": "singleton"}, {"operator": "diagonal+rank2"}):
        with pytest.raises(CalibrationError, match=r"sums that give|unions of those summed"):
            small.solve(**options)


def test_a_set_survives_its_folder(tmp_path: Path) -> None:
    original = gather_moments(plan(partition="blocks2"), batches(), on="tangents", progress=False)
    folder = save_moments(original, tmp_path / "moments")
    again = load_moments(folder, captured("chain"))
    agree(again.solve(), original.solve(), tolerance=0)
    assert (again.samples, again.on, again.mean, again.after) == (original.samples, "tangents", original.mean, "")
    merged = again.merge(
        gather_moments(plan(partition="blocks2"), batches(count=36)[6:], on="tangents", progress=False)
    )
    assert merged.count == 2 * again.count
    with pytest.raises(StoreError, match="does not exist yet"):
        save_moments(original, folder)
    assert save_moments(merged, folder, overwrite=True) == folder


@pytest.mark.parametrize("fault", ["flipped", "missing", "count", "after", "shape", "outside", "other model", "files"])
def test_a_damaged_or_foreign_folder_is_refused(fault: str, tmp_path: Path) -> None:
    folder = save_moments(whole(), tmp_path / "moments")
    description = json.loads((folder / "moments.json").read_text())
    file = folder / description["files"]["input"]["file"]
    graph = captured("fork" if fault == "other model" else "chain")
    if fault == "flipped":
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    elif fault == "missing":
        file.unlink()
    elif fault == "shape":
        other = next(entry for name, entry in description["files"].items() if name != "input")
        description["files"]["input"] = other
    elif fault == "outside":
        shutil.copy(file, tmp_path / "elsewhere.safetensors")
        description["files"]["input"]["file"] = "../elsewhere.safetensors"
    elif fault == "files":
        del description["files"]["input"]
    elif fault in ("count", "after"):
        description[fault] = -3
    if fault != "flipped":
        (folder / "moments.json").write_text(json.dumps(sealed(description)))
    with pytest.raises(StoreError):
        load_moments(folder, graph)


def test_an_altered_description_is_refused(tmp_path: Path) -> None:
    folder = save_moments(whole(), tmp_path / "moments")
    text = (folder / "moments.json").read_text()
    (folder / "moments.json").write_text(text.replace('"count": 18', '"count": 17'))
    with pytest.raises(StoreError, match="checksum"):
        load_moments(folder, captured("chain"))


def _shard(start: int, folder: str, maps: str | None) -> None:
    """What one process does in one round."""
    after = None if maps is None else sgfi.load(maps, captured("chain"))
    moments = gather_moments(plan() if after is None else after.plan, batches()[start::3], after, progress=False)
    save_moments(moments, Path(folder) / f"{start}")


@pytest.mark.slow
def test_three_shards_on_three_processes_are_the_joint_family(tmp_path: Path) -> None:
    graph, maps = captured("chain"), None
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        for number in (1, 2):
            folder = tmp_path / f"round{number}"
            folder.mkdir()
            pool.starmap(_shard, [(start, str(folder), maps and str(tmp_path / "maps1")) for start in range(3)], 1)
            first, *others = (load_moments(folder / f"{start}", graph) for start in range(3))
            maps = first.merge(*others).solve(after=maps)
            sgfi.save(maps, tmp_path / f"maps{number}")
    assert maps is not None
    agree(maps, sgfi.calibrate(plan(), batches(), progress=False))

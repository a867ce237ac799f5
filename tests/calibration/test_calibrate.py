"""Calibration: any schedule of passes, chunks, spills and interruptions gives the same maps."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sgfi
from sgfi.calibration import passes as fitting
from sgfi.calibration.calibrate import fit
from sgfi.calibration.schedule import MemoryPlan
from sgfi.calibration.settings import FitSettings
from sgfi.calibration.spill import SpillBuffer
from sgfi.derivatives import LocalMap
from sgfi.errors import CalibrationError, SgfiError, StoreError
from tests.analytic import tiny

CHILDREN = ["true", "online"]


@cache
def plan(name: str = "chain", **more: Any) -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(
        sgfi.capture(model, model.inputs(2)),
        target=model.target,
        boundaries=list(model.boundaries),
        axes=model.channel_axis,
        **more,
    )


def batches(name: str = "chain", sizes: tuple[int, ...] = (3, 1, 4)) -> list[Tensor]:
    return list(tiny(name).inputs(sum(sizes)).split(list(sizes)))


def calibrate(planned: sgfi.Plan, data: Any, **more: Any) -> sgfi.MapFamily:
    return sgfi.calibrate(planned, data, **{"progress": False} | more)


@cache
def reference(name: str = "chain", children: str = "true", stages: int = 2) -> sgfi.MapFamily:
    return calibrate(plan(name), batches(name), children=children, stages=stages)


def agree(first: sgfi.MapFamily, second: sgfi.MapFamily, exactly: bool = False) -> None:
    assert first.maps.keys() == second.maps.keys() and first.stages == second.stages
    for name in first.maps:
        for left, right in zip(first.maps[name], second.maps[name], strict=True):
            assert left.weights.keys() == right.weights.keys()
            for key in left.weights:
                if exactly:
                    assert torch.equal(left.weights[key], right.weights[key]), name
                else:
                    torch.testing.assert_close(left.weights[key], right.weights[key], rtol=1e-7, atol=1e-9)


class Fragile:
    """Batches that fail at the n-th one read, counted over all passes."""

    def __init__(self, data: list[Tensor], at: int, error: BaseException) -> None:
        self.data, self.at, self.error, self.read = data, at, error, 0

    def __iter__(self) -> Iterator[Tensor]:
        for x in self.data:
            self.read += 1
            if self.read == self.at:
                raise self.error
            yield x


# ------------------------------------------------------------------- one result, many ways


@pytest.mark.parametrize("children", CHILDREN)
def test_any_batch_split_gives_the_same_maps(children: str) -> None:
    x = tiny("chain").inputs(8)
    for split in ([x], [x[:1], x[1:]], list(x.split(1))):
        agree(calibrate(plan(), split, children=children), reference(children=children))


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("operator", ["full", "diagonal+rank2"])
def test_a_small_budget_means_more_passes_and_the_same_maps(
    children: str, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(operator=operator)
    expected = calibrate(planned, batches(), children=children)
    once = dict.fromkeys(planned.fitted, 1)
    rounds = 1 if children == "true" else len(planned.fitted)
    whole = {
        "budget": None,
        "rounds": rounds,
        "passes": 2 * rounds + (children != "true"),
        "chunks": once,
        "resumed": 0,
    }
    assert expected.schedule == whole == expected.describe()["schedule"]
    smallest = MemoryPlan.within(planned, FitSettings(children=children), 8, budget=1)
    least = max(smallest.held(name) + smallest.moment_bytes(name, 1) for name in planned.fitted)
    passes: list[dict] = []
    real = fitting.accumulate
    monkeypatch.setattr(
        fitting, "accumulate", lambda run, active, *a: passes.append(dict(active)) or real(run, active, *a)
    )
    fitted = calibrate(planned, batches(), children=children, memory=least)
    agree(fitted, expected)
    assert fitted.schedule["budget"] == least
    assert fitted.schedule["passes"] == len(passes) + (children != "true")
    for name in planned.fitted:  # both maps
        assert 2 * fitted.schedule["chunks"][name] == sum(name in active for active in passes)
    assert max(fitted.schedule["chunks"].values()) > 1
    assert len(passes) > 2 * len(planned.fitted), "bins had to be fitted in several passes"
    for name in planned.fitted:
        covered = [group for active in passes for group in active.get(name, ())]
        assert sorted(covered) == sorted(2 * list(range(planned.boundary[name].partition.count)))


@pytest.mark.parametrize("stages", [2, 3])
def test_first_sources_that_fit_are_pulled_back_once(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pulls: list[object] = []
    module = sys.modules["sgfi.calibration.calibrate"]
    monkeypatch.setattr(module, "learning_curve", lambda *_: None)  # it pulls back for itself
    real = LocalMap.vjp
    monkeypatch.setattr(LocalMap, "vjp", lambda local, seeds: pulls.append(local) or real(local, seeds))
    planned, expected, counts = plan("residual"), reference("residual", stages=stages), []
    pulls.clear()
    for room in (0, 10**9):
        monkeypatch.setattr(MemoryPlan, "left", lambda memory, rounds, room=room: room)
        agree(calibrate(planned, batches("residual"), stages=stages), expected, exactly=True)
        counts.append(len(pulls))
        pulls.clear()
    each = 3 * len(planned.fitted)  # three batches
    assert counts == [each * sum(range(1, stages + 1)), each * (1 + sum(range(1, stages)))]


def test_a_budget_that_cannot_do_names_the_node_and_the_least() -> None:
    with pytest.raises(CalibrationError, match=r"memory budget of at least .* for node '\w+'; got 100 B"):
        calibrate(plan(), batches(), memory=100)
    with pytest.raises(CalibrationError, match="4GiB"):
        calibrate(plan(), batches(), memory="much")


def test_spilled_states_give_identical_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spilled = []
    put = SpillBuffer.put
    monkeypatch.setattr(MemoryPlan, "spare", lambda self: 0)
    monkeypatch.setattr(
        SpillBuffer, "put", lambda self, *a: put(self, *a) or spilled.append(len(list(tmp_path.rglob("*.s*"))))
    )
    agree(calibrate(plan(), batches(), children="online"), reference(children="online"), exactly=True)
    assert max(spilled) > 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_caller_s_gradient_mode_does_not_matter(mode: type, children: str) -> None:
    with mode():
        family = calibrate(plan(), [x.clone() for x in batches()], children=children)
    agree(family, reference(children=children), exactly=True)
    weights = [w for maps in family.maps.values() for wiener in maps for w in wiener.weights.values()]
    assert not any(weight.is_inference() for weight in weights)


@pytest.mark.parametrize("children", CHILDREN)
def test_loaders_and_tuples_count_by_their_first_element(children: str) -> None:
    x = tiny("chain").inputs(8)
    loader = DataLoader(TensorDataset(x, torch.arange(8)), batch_size=3)
    agree(calibrate(plan(), loader, children=children), reference(children=children))


def test_what_the_family_records() -> None:
    family = calibrate(plan(), batches(), ridge=0.2, stages=3, provenance={"seed": 7})
    assert (family.ridge, family.children, family.samples, family.stages) == (0.2, "true", 8, 3)
    assert family.provenance == {"seed": 7} and family.target == "conv3"
    for name in plan().fitted:
        assert len(family.diagnostics[name]) == 3
        for record in family.diagnostics[name]:
            basis = plan().boundary[name].basis
            assert record["ridge"] == pytest.approx(0.2 * record["source_energy"] / (basis.bins * basis.channels))
    assert "3 nodes" in repr(family) and "8 samples" in repr(family) and family.bytes > 0


@pytest.mark.parametrize("children", CHILDREN)
def test_another_seed_goes_through_the_same_fit(children: str) -> None:
    """Twice the seed halves the first map; the correction reads no seed."""
    doubled = FitSettings(children=children, seed=lambda state, boundary: 2 * state / boundary.channels)
    family, expected = fit(doubled, plan(), batches(), progress=False), reference(children=children)
    for name in plan().fitted:
        halved, same = ([wiener.weights["gain"] for wiener in each.maps[name]] for each in (family, expected))
        torch.testing.assert_close(2 * halved[0], same[0])
        torch.testing.assert_close(halved[1], same[1])


def test_a_checkpoint_tells_seeds_apart(tmp_path: Path) -> None:
    calibrate(plan(), batches(), checkpoint=tmp_path / "maps")
    other = FitSettings(seed=lambda state, boundary: state)
    with pytest.raises(StoreError, match="another model, plan, data or setting"):
        fit(other, plan(), batches(), checkpoint=tmp_path / "maps", progress=False)


def test_unknown_keywords_are_named() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'checkpiont'.*'checkpoint'"):
        calibrate(plan(), batches(), checkpiont="maps")
    known = inspect.signature(sgfi.calibrate).parameters
    assert list(known) == [
        *("plan", "batches", "ridge", "children", "preset", "stages", "on", "length", "until"),
        *("memory", "checkpoint", "progress", "provenance", "distributed"),
    ]


# ------------------------------------------------------------------- interruption


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that are fitted from now on."""
    module, fitted = sys.modules["sgfi.calibration.calibrate"], []
    real = module.fit_nodes
    monkeypatch.setattr(module, "fit_nodes", lambda run, names, *a: fitted.extend(names) or real(run, names, *a))
    return fitted


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("error", [RuntimeError("the disk went away"), KeyboardInterrupt()])
def test_an_interrupted_calibration_resumes_to_identical_maps(
    children: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planned, data, folder = plan(), batches(), tmp_path / "maps"
    monkeypatch.setattr(MemoryPlan, "packed", lambda memory, names: [[name] for name in names])
    expected = calibrate(planned, data, children=children)
    passes = 1 + (children == "online") + 2  # the first reading, starting states, both stages of the deepest node
    with pytest.raises(type(error)):
        calibrate(planned, Fragile(data, passes * len(data) + 2, error), children=children, checkpoint=folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["maps"], "nothing but the checkpoint is left"
    kept = sorted(folder.glob("*.safetensors"))
    assert len(kept) == 1 and not list(folder.glob("*.part")) and not (folder / "manifest.json").exists()
    with pytest.raises(StoreError, match="unfinished"):
        sgfi.load(folder, tiny("chain"))

    stamp, fitted = kept[0].stat().st_mtime_ns, counted(monkeypatch)
    resumed = calibrate(planned, data, children=children, checkpoint=folder)
    assert fitted == ["act1", "input"], "the finished node is not fitted again"
    assert kept[0].stat().st_mtime_ns == stamp
    agree(resumed, expected, exactly=True)
    assert dict(resumed.diagnostics) == dict(expected.diagnostics)
    schedule = resumed.schedule
    assert schedule["resumed"] == 1 and set(schedule["chunks"]) == {"act1", "input"} and schedule["rounds"] == 2

    loaded = sgfi.load(folder, tiny("chain"))
    agree(loaded, expected, exactly=True)
    assert not (folder / "calibration.json").exists()
    assert loaded.schedule == schedule
    fitted.clear()
    again = calibrate(planned, data, children=children, checkpoint=folder)
    agree(again, expected, exactly=True)
    assert again.schedule == schedule == sgfi.load(folder, tiny("chain")).schedule, "nothing ran, nothing is recorded"
    assert not fitted, "a finished calibration is only read"


@pytest.mark.parametrize("children", CHILDREN)
def test_a_damaged_node_of_a_checkpoint_is_fitted_again(
    children: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Online, whatever was repaired from it is fitted again too."""
    folder, expected = tmp_path / "maps", reference(children=children)
    agree(calibrate(plan(), batches(), children=children, checkpoint=folder), expected, exactly=True)
    (folder / "001_act1.safetensors").unlink()  # a new file: nobody may cut one that is still mapped
    (folder / "001_act1.safetensors").write_bytes(b"\0" * 100)
    fitted = counted(monkeypatch)
    agree(calibrate(plan(), batches(), children=children, checkpoint=folder), expected, exactly=True)
    assert fitted == (["act1"] if children == "true" else ["act1", "input"])
    agree(sgfi.load(folder, tiny("chain")), expected, exactly=True)


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    data = batches()
    calibrate(plan(), data, checkpoint=tmp_path / "maps")
    before = {file.name: file.read_bytes() for file in (tmp_path / "maps").iterdir()}
    for other in (
        {"ridge": 0.02},
        {"children": "online"},
        {"stages": 3},
        {"data": [x.flip(-1) for x in data]},
        {"planned": plan(operator="diagonal")},
    ):
        job = {"planned": plan(), "data": data} | other
        with pytest.raises(StoreError, match="another model, plan, data or setting"):
            calibrate(checkpoint=tmp_path / "maps", **job)
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "maps").iterdir()}
    calibrate(plan(), data, checkpoint=tmp_path / "maps", memory="1GiB")  # memory does not change the job


def test_a_checkpoint_folder_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "calibration.json").write_text("{")
    for name in ("full", "file", "broken", "file/below"):
        with pytest.raises(StoreError):
            calibrate(plan(), batches(), checkpoint=tmp_path / name)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "mine" == (tmp_path / "file").read_text()


def test_a_full_disk_keeps_the_nodes_that_were_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sgfi.storage.files as store

    saved, real = [], store.save_file

    def save(tensors: dict, file: Path, **more: Any) -> None:
        if len(saved) == 2:
            Path(file).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        saved.append(file)
        real(tensors, file, **more)

    monkeypatch.setattr(store, "save_file", save)
    with pytest.raises(StoreError, match="No space left"):
        calibrate(plan(), batches(), checkpoint=tmp_path / "maps")
    note = json.loads((tmp_path / "maps" / "calibration.json").read_text())
    assert len(note["nodes"]) == 2 == len(list((tmp_path / "maps").glob("*.safetensors")))
    assert not list((tmp_path / "maps").glob("*.part"))
    monkeypatch.setattr(store, "save_file", real)
    agree(calibrate(plan(), batches(), checkpoint=tmp_path / "maps"), reference(), exactly=True)


# ------------------------------------------------------------------- data


def test_batches_must_be_readable_again() -> None:
    data = batches()
    for wrong in (iter(data), (x for x in data), torch.cat(data), None, 3, "data", {"x": data[0]}):
        with pytest.raises(CalibrationError, match="read several times"):
            calibrate(plan(), wrong)


def test_a_hidden_one_shot_is_noticed_on_the_second_pass() -> None:
    class Once:
        def __init__(self) -> None:
            self.rest = iter(batches())

        def __iter__(self) -> Iterator[Tensor]:
            return (x for x in self.rest)

    with pytest.raises(CalibrationError, match="0 batches after 3"):
        calibrate(plan(), Once())


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[::-1],
        lambda data: [data[0], data[1], data[2].flip(0)],
        lambda data: [data[0].flip(-1), *data[1:]],
        lambda data: data[:-1],
        lambda data: [*data, data[0]],
        lambda data: [data[0][:2], *data[1:]],
    ],
    ids=["order of batches", "order in a batch", "mirrored", "fewer", "more", "smaller"],
)
def test_batches_that_change_between_passes(change: Any, children: str) -> None:
    class Shuffled:
        turn = 0

        def __iter__(self) -> Iterator[Tensor]:
            self.turn += 1
            return iter(data if self.turn < 3 else change(data))

    # Powers of two: sums are exact, so that only the order tells these batches apart.
    data = [torch.exp2(x.clamp(-3, 3).round()) for x in batches()]
    with pytest.raises(CalibrationError, match="same batches in the same order"):
        calibrate(plan(), Shuffled(), children=children)


def bad_data() -> dict[str, tuple[Any, str]]:
    x = tiny("chain").inputs(4)
    spoilt = x.clone()
    spoilt[2, 1, 0, 0] = float("nan")
    return {
        "no batches": ([], "got 0"),
        "one sample": ([x[:1]], "got 1"),
        "an empty batch": ([x, x[:0]], r"\(0, 2, 5, 6\) in batch 1"),
        "nan": ([x, spoilt], "NaN or infinity in batch 1"),
        "shape": ([x, x[..., :4]], r"\(4, 2, 5, 4\) in batch 1"),
        "no batch axis": ([x[0]], r"\(2, 5, 6\) in batch 0"),
        "single precision": ([x.float()], "float32 in batch 0"),
        "device": ([x.to("meta")], "meta in batch 0"),
        "numpy": ([x.numpy()], "ndarray in batch 0"),
        "empty tuple": ([()], "tuple in batch 0"),
        "dictionary": ([{"x": x}], "dict in batch 0"),
    }


@pytest.mark.parametrize("kind", bad_data())
def test_unusable_data(kind: str) -> None:
    data, message = bad_data()[kind]
    with pytest.raises(CalibrationError, match=message):
        calibrate(plan(), data)


def test_double_inputs_for_a_single_precision_model() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    planned = sgfi.plan(sgfi.capture(model, torch.randn(2, 3)), target="2", boundaries=["0"])
    with pytest.raises(CalibrationError, match="float64"):
        calibrate(planned, [torch.randn(4, 3, dtype=torch.float64)])


class Overflow(nn.Module):
    """The middle overflows for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.middle(torch.exp(self.first(x)))))


@pytest.mark.parametrize("children", CHILDREN)
def test_non_finite_activations_stop_with_the_node_s_name(children: str) -> None:
    model = Overflow().eval()
    planned = sgfi.plan(sgfi.capture(model, torch.randn(2, 3)), target="last", boundaries=["first", "middle"])
    with pytest.raises(CalibrationError, match="'middle' in batch 1"):
        calibrate(planned, [torch.randn(4, 3), 1e4 * torch.randn(4, 3)], children=children)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ridge": 0}, "ridge"),
        ({"ridge": -0.1}, "ridge"),
        ({"ridge": float("nan")}, "ridge"),
        ({"ridge": float("inf")}, "ridge"),
        ({"ridge": "0.01"}, "ridge"),
        ({"children": "repaired"}, "children"),
        ({"stages": 0}, "stage"),
        ({"stages": 1.5}, "stage"),
        ({"stages": True}, "stage"),
        ({"preset": "alinged"}, r"\['paper', 'aligned'\]; got 'alinged'. Did you mean 'aligned'"),
    ],
)
def test_wrong_settings(setting: dict, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        calibrate(plan(), batches(), **setting)


def test_a_ridge_too_small_to_solve_with_is_told_not_raised_by_the_solver() -> None:
    model = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 2)).eval()
    planned = sgfi.plan(sgfi.capture(model, torch.randn(2, 6)), target="2", boundaries=["0"])
    with pytest.raises(SgfiError, match=r"ridge"):
        calibrate(planned, [torch.randn(4, 6)], ridge=1e-30)


def test_maps_belong_to_the_weights_they_were_fitted_on(tmp_path: Path) -> None:
    """Training on after calibration must not pass the maps off as fitted on the new weights."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    planned = sgfi.plan(sgfi.capture(model, torch.randn(2, 3)), target="2", boundaries=["0"])
    family = calibrate(planned, [torch.randn(6, 3)])
    with torch.no_grad():
        model[0].weight += 1
    sgfi.save(family, tmp_path / "maps")
    with pytest.raises(StoreError, match="fingerprint"):
        sgfi.load(tmp_path / "maps", model)


# ------------------------------------------------------------------- progress


@pytest.mark.parametrize("children", CHILDREN)
def test_progress_is_silent_when_off_and_complete_when_on(children: str, capsys: pytest.CaptureFixture[str]) -> None:
    calibrate(plan(), batches(), children=children)
    assert capsys.readouterr() == ("", "")
    calibrate(plan(), batches(), children=children, progress=True)
    shown = capsys.readouterr()
    total = 3 * ((2 * 3 + 1) if children == "online" else 2)
    assert not shown.out and "calibrating" in shown.err and f"{total}/{total}" in shown.err

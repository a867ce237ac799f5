"""Cross-fitted children: states no map has seen, stages that stop, resumption, and the laws that must not change."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.calibration.schedule import MemoryPlan
from sgfi.errors import CalibrationError

BEST = {"children": "cross-fitted", "ridge": "auto", "stages": "auto"}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(2, 5, 3, padding=1)
        self.two = nn.Conv2d(5, 6, 3, stride=2, padding=1)
        self.three = nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.three(torch.relu(self.two(torch.tanh(self.one(x)))))


def setup(count: int = 24) -> tuple[sgfi.Plan, list[Tensor]]:
    torch.manual_seed(1)
    model = Net().double().eval()
    x = torch.nn.functional.avg_pool2d(torch.randn(count, 2, 10, 10), 3, 1).double()
    plan = sgfi.plan(sgfi.capture(model, x[:2]), "three", ["one", "two"])
    return plan, list(x.split(7))


def weights(family: sgfi.MapFamily) -> list[Tensor]:
    return [tensor for maps in family.maps.values() for wiener_map in maps for tensor in wiener_map.weights.values()]


def test_a_carried_state_comes_from_maps_that_did_not_see_its_sample() -> None:
    """The leave-one-out error of the deepest node equals refitting without each sample in turn."""
    plan, batches = setup(9)
    family = sgfi.calibrate(plan, batches, children="cross-fitted", ridge=0.1, stages=1, progress=False)
    x = torch.cat(batches)
    everything = sgfi.calibrate(plan, [x], ridge=0.1, stages=1, progress=False)
    shift = everything.diagnostics["two"][0]["ridge"]
    left = 0.0
    (state,) = plan.graph.program(("input",), ("two",))(x)
    for index in range(len(x)):
        rest = torch.cat([x[:index], x[index + 1 :]])
        # The same absolute shift: the mean over one sample fewer weighs each of them more.
        relative = sgfi.calibrate(plan, [rest], ridge=1.0, stages=1, progress=False).diagnostics["two"][0]["ridge"]
        refit = sgfi.calibrate(plan, [rest], ridge=shift * len(x) / len(rest) / relative, stages=1, progress=False)
        estimate = sgfi.invert(refit, x[index : index + 1], stage="first").states["two"]
        left += float((estimate - state[index]).square().sum())
    assert family.diagnostics["two"][0]["missed_after"] == pytest.approx(left / len(x), rel=1e-6)


def test_stages_go_on_while_the_held_out_error_falls_and_then_stop() -> None:
    plan, batches = setup()
    family = sgfi.calibrate(plan, batches, progress=False, **BEST)  # type: ignore[arg-type]
    every = sgfi.calibrate(plan, batches, progress=False, **{**BEST, "stages": 8})  # type: ignore[arg-type]
    assert family.stages > 1, "some node gains from a correction"
    assert sum(map(len, family.maps.values())) < sum(map(len, every.maps.values()))
    for name, records in family.diagnostics.items():
        assert len(records) == len(family.maps[name])
        for before, after in itertools.pairwise(records):
            assert after["missed_after"] < 0.999 * after["missed_before"]
            assert after["missed_before"] == pytest.approx(before["missed_after"], rel=1e-9)


@pytest.mark.parametrize("size", [1, 7, 24])
@pytest.mark.parametrize("ridge", [0.1, "auto"])
def test_what_stages_are_chosen_on_is_in_no_fit(size: int, ridge: float | str) -> None:
    plan, batches = setup()
    x = torch.cat(batches)
    out = torch.arange(len(x)) % 8 == 7
    family = sgfi.calibrate(plan, x.split(size), ridge, "online", stages="auto", progress=False)
    without = sgfi.calibrate(plan, [x[~out]], ridge, "online", stages=1, progress=False)
    assert family.samples == without.samples == 21
    torch.testing.assert_close(weights(family)[-len(family.maps["two"])], weights(without)[-1])
    states = sgfi.invert(family, x[out]).states
    for name in plan.fitted:
        (true,) = plan.graph.program(("input",), (name,))(x[out]) if name != "input" else (x[out],)
        left = (true - states[name]).square().sum() / len(true)
        assert family.diagnostics[name][-1]["missed_after"] == pytest.approx(float(left), rel=1e-6)


@pytest.mark.parametrize("children", ["online", "cross-fitted"])
def test_samples_say_the_same_as_their_moments(children: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer samples than channels: no moments are kept, and the maps are the same."""
    plan, batches = setup(4)
    options = {"ridge": "auto", "children": children, "progress": False}
    few = sgfi.calibrate(plan, batches, **options)
    monkeypatch.setattr(MemoryPlan, "few", lambda memory, name: False)
    for left, right in zip(weights(few), weights(sgfi.calibrate(plan, batches, **options)), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-8)


def test_too_few_samples_to_hold_any_out() -> None:
    plan, batches = setup()
    with pytest.raises(CalibrationError, match="at least 8 samples"):
        sgfi.calibrate(plan, [batches[0]], children="online", stages="auto", progress=False)


@pytest.mark.parametrize("children", ["online", "cross-fitted"])
def test_zero_and_linearity_hold_for_the_best_settings(children: str) -> None:
    plan, batches = setup()
    family = sgfi.calibrate(plan, batches, progress=False, **{**BEST, "children": children})  # type: ignore[arg-type]
    x = batches[0][:3]
    top = sgfi.invert(family, x).states["three"]
    assert torch.equal(sgfi.invert(family, x, terminal=torch.zeros_like(top)).value, torch.zeros_like(x))
    other = torch.randn_like(top)
    both = sgfi.invert(family, x, terminal=2 * top + 3 * other).value
    apart = 2 * sgfi.invert(family, x, terminal=top).value + 3 * sgfi.invert(family, x, terminal=other).value
    torch.testing.assert_close(both, apart)


class Stopping:
    """Batches that are interrupted after a number of reads."""

    def __init__(self, batches: list[Tensor], reads: int) -> None:
        self.batches, self.reads = batches, reads

    def __iter__(self) -> Iterator[Tensor]:
        for batch in self.batches:
            self.reads -= 1
            if self.reads < 0:
                raise KeyboardInterrupt
            yield batch


@pytest.mark.parametrize("reads", [9, 18, 26])
def test_an_interrupted_cross_fitted_calibration_resumes_to_the_same_maps(tmp_path: Path, reads: int) -> None:
    plan, batches = setup()
    whole = sgfi.calibrate(plan, batches, progress=False, **BEST)  # type: ignore[arg-type]
    folder = tmp_path / "maps"
    with pytest.raises(KeyboardInterrupt):
        sgfi.calibrate(plan, Stopping(batches, reads), checkpoint=folder, progress=False, **BEST)  # type: ignore[arg-type]
    resumed = sgfi.calibrate(plan, batches, checkpoint=folder, progress=False, **BEST)  # type: ignore[arg-type]
    for expected, weight in zip(weights(whole), weights(resumed), strict=True):
        assert torch.equal(expected, weight)
    assert not (folder / "states").exists()


def test_lost_states_mean_fitting_again_not_fitting_wrong(tmp_path: Path) -> None:
    plan, batches = setup()
    whole = sgfi.calibrate(plan, batches, progress=False, **BEST)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        sgfi.calibrate(plan, Stopping(batches, 26), checkpoint=tmp_path / "m", progress=False, **BEST)  # type: ignore[arg-type]
    for file in (tmp_path / "m" / "states").glob("*"):
        file.unlink()
    resumed = sgfi.calibrate(plan, batches, checkpoint=tmp_path / "m", progress=False, **BEST)  # type: ignore[arg-type]
    for expected, weight in zip(weights(whole), weights(resumed), strict=True):
        assert torch.equal(expected, weight)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ridge": "auto"}, "online"),
        ({"ridge": "auto", "children": "true"}, "cross-fitted"),
        ({"stages": "auto", "children": "true"}, "online"),
        ({"ridge": "big"}, "auto"),
        ({"stages": "many"}, "auto"),
        ({"children": "crossfitted"}, "cross-fitted"),
    ],
)
def test_settings_that_do_not_go_together(setting: dict, message: str) -> None:
    plan, batches = setup()
    with pytest.raises(CalibrationError, match=message):
        sgfi.calibrate(plan, batches, progress=False, **setting)


def test_operators_whose_leverage_is_not_known_are_refused() -> None:
    plan, batches = setup()
    ranked = sgfi.plan(plan.graph, "three", ["one", "two"], operator="diagonal+rank2")
    with pytest.raises(CalibrationError, match=r"diagonal\+rank2"):
        sgfi.calibrate(ranked, batches, children="cross-fitted", progress=False)
    diagonal = sgfi.plan(plan.graph, "three", ["one", "two"], operator="diagonal")
    with pytest.raises(CalibrationError, match="full or a causal operator"):
        sgfi.calibrate(diagonal, batches, children="online", ridge="auto", progress=False)
    crossed = sgfi.calibrate(diagonal, batches, children="cross-fitted", progress=False)
    online = sgfi.calibrate(diagonal, batches, children="online", progress=False)
    assert not torch.equal(weights(crossed)[0], weights(online)[0])


def test_the_former_word_is_accepted_with_a_warning(tmp_path: Path) -> None:
    plan, batches = setup()
    with pytest.warns(DeprecationWarning, match="'honest' is now called 'cross-fitted'") as warned:
        family = sgfi.calibrate(plan, batches, children="honest", stages=1, progress=False, checkpoint=tmp_path / "m")
    assert family.children == "cross-fitted" and warned[0].filename == __file__
    same = sgfi.calibrate(plan, batches, children="cross-fitted", stages=1, progress=False, checkpoint=tmp_path / "m")
    assert all(map(torch.equal, weights(family), weights(same)))
    manifest = tmp_path / "m" / "manifest.json"  # as earlier releases wrote it
    content = json.loads(manifest.read_text())
    del content["calibration"]["settings"], content["checksum"]
    content["calibration"]["children"] = "honest"
    manifest.write_text(json.dumps(content))
    before = sgfi.load(tmp_path / "m", plan.graph)
    assert before.children == "cross-fitted" and before.settings == {}


def test_only_states_that_unfinished_nodes_read_are_kept(tmp_path: Path) -> None:
    plan, batches = setup()
    with pytest.raises(KeyboardInterrupt):
        sgfi.calibrate(plan, Stopping(batches, 26), "auto", "cross-fitted", checkpoint=tmp_path / "m", progress=False)
    kept = {file.name for file in (tmp_path / "m" / "states").iterdir()}
    finished = json.loads((tmp_path / "m" / "calibration.json").read_text())["nodes"]
    assert set(finished) == {"two", "one"} and kept == {"001.0.safetensors"}, "of `one`, which the input reads"

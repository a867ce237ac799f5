"""Ranking, groups, interventions and the gate on models whose decision is known by construction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sgfi
from sgfi import decisions
from sgfi.decisions import DecisionSettings, Edit, Split
from sgfi.decisions.gates import curve_summary
from sgfi.decisions.groups import KINDS
from sgfi.decisions.interventions import Curve, deletion_counts
from sgfi.errors import CalibrationError, DataError, QueryError, StoreError
from sgfi.evaluation.metrics import pixel_cosine
from tests.decisions.known import BIAS, CONTRA, PLACE, PRO, Around, Known, pictures
from tests.estimators import Backpropagation


@pytest.fixture(scope="module")
def graph() -> sgfi.TensorGraph:
    return sgfi.capture(Known().eval(), pictures(2))


@pytest.fixture(scope="module")
def mirrored() -> sgfi.TensorGraph:
    return sgfi.capture(Known(mirror=True).eval(), pictures(2))


@pytest.fixture
def x() -> torch.Tensor:
    return pictures(6, seed=5)


def leading(graph: sgfi.TensorGraph, x: torch.Tensor) -> torch.Tensor:
    """+1 where the first class wins, -1 where the second does: the sign of every contribution."""
    return 1.0 - 2.0 * decisions.decide(graph, x).top.double()


# ranking


def test_the_ranking_finds_the_known_channels_and_position(graph, x) -> None:
    ranking = decisions.rank(graph, x, ["embed"])["embed"]
    state = Known().embed(x)
    expected = torch.zeros(6, 48, dtype=torch.float64)
    expected[:, PRO], expected[:, CONTRA] = state[(slice(None), PRO, *PLACE)], -state[(slice(None), CONTRA, *PLACE)]
    torch.testing.assert_close(ranking.channels, expected * leading(graph, x)[:, None])
    assert ranking.coords.shape == (6, 4, 4)
    assert all(np.unravel_index(int(c.abs().argmax()), (4, 4)) == PLACE for c in ranking.coords)
    assert (ranking.coords != 0).sum() == 6


def test_contributions_of_a_linear_readout_sum_to_the_margin(graph, x) -> None:
    rankings = decisions.rank(graph, x, ["embed", "input"])
    for ranking in rankings.values():  # the bias is the only part that no activation carries
        torch.testing.assert_close(ranking.value.flatten(1).sum(1) + BIAS * leading(graph, x), ranking.decision.margin)


def test_gradients_at_several_depths_are_those_of_each_alone() -> None:
    model, x = Around().eval(), torch.randn(3, 3, 8, 8)
    graph = sgfi.capture(model, x[:2])
    together = decisions.rank(graph, x, ["stem", "inner", "add"])
    for name, ranking in together.items():
        split = Split(graph, x, name)
        leaf = split.state.clone().requires_grad_()
        logits = split.logits(leaf)
        total = decisions.readout.margin(logits, split.decision.top, split.decision.second).sum()
        torch.testing.assert_close(ranking.gradient, torch.autograd.grad(total, leaf)[0])
        torch.testing.assert_close(ranking.state, split.state)


def test_ranking_refuses_what_the_logits_do_not_read(graph, x) -> None:
    with pytest.raises(QueryError, match="upstream"):
        decisions.rank(graph, x, ["linear"])
    with pytest.raises(QueryError, match="logits"):
        decisions.rank(graph, x, ["input"], output="embed")


# interventions


def test_an_intervention_has_the_exact_expected_effect(graph, x) -> None:
    split, sign = Split(graph, x, "embed"), leading(graph, x)
    state = split.state
    edits = [Edit([PRO]), Edit([CONTRA]), Edit([PRO], [PLACE]), Edit([PRO], [(0, 0)]), Edit([0, 1, 2]), Edit()]
    effect = decisions.intervene(split, edits)
    pro, contra = sign * state[(slice(None), PRO, *PLACE)], -sign * state[(slice(None), CONTRA, *PLACE)]
    nothing = torch.zeros(6, dtype=torch.float64)
    torch.testing.assert_close(effect.drop, torch.stack([pro, contra, pro, nothing, nothing, pro + contra]))
    torch.testing.assert_close(effect.before, pro + contra + BIAS * sign)
    after = effect.before - effect.drop
    assert torch.equal(effect.flipped, after < 0)
    # zeroing has exactly the effect that activation times gradient predicts, the readout being linear
    torch.testing.assert_close(effect.drop[0], decisions.rank(graph, x, ["embed"])["embed"].channels[:, PRO])


def test_replacements_by_means_values_and_the_state_itself(graph, x) -> None:
    split, sign = Split(graph, x, "embed"), leading(graph, x)
    state = split.state[(slice(None), PRO, *PLACE)]
    means = torch.arange(48, dtype=torch.float64)
    torch.testing.assert_close(decisions.intervene(split, [Edit([PRO])], means).drop[0], sign * (state - PRO))
    torch.testing.assert_close(decisions.intervene(split, [Edit([PRO])], 2.0).drop[0], sign * (state - 2.0))
    assert decisions.intervene(split, [Edit()], split.state).drop.abs().max() < 1e-12
    with pytest.raises(QueryError, match="broadcast"):
        decisions.intervene(split, [Edit([PRO])], torch.zeros(5))
    with pytest.raises(QueryError):
        decisions.intervene(split, [Edit([48])])
    with pytest.raises(QueryError, match="at least one"):
        decisions.intervene(split, [])


def test_a_split_is_the_model_and_holds_the_path_around() -> None:
    model, x = Around().eval(), torch.randn(3, 3, 8, 8)
    graph = sgfi.capture(model, x[:2])
    split = Split(graph, x, "inner")
    torch.testing.assert_close(split.logits(split.state), model(x))
    torch.testing.assert_close(split.logits(split.state.repeat(4, 1, 1, 1)), model(x).repeat(4, 1))
    # against the module itself, edited through a hook
    edit = Edit([1, 4], [(0, 0), (7, 3)])
    effects = decisions.intervene(split, [Edit([2]), edit], 0.7, chunk=3)
    with decisions.intervened(model, "inner", edit, 0.7):
        logits = model(x)
    rows = torch.arange(3)
    after = logits[rows, split.decision.top] - logits[rows, split.decision.second]
    torch.testing.assert_close(effects.drop[1], split.decision.margin - after)
    with pytest.raises(QueryError, match="Repeat"):
        split.logits(split.state[:2])


def test_the_context_always_restores() -> None:
    model, x = Around().eval(), torch.randn(2, 3, 8, 8)
    before, state = model(x), {name: value.clone() for name, value in model.state_dict().items()}
    with decisions.intervened(model, "stem", Edit([0]), torch.arange(6.0)):
        assert not torch.equal(model(x), before)
    assert torch.equal(model(x), before)

    def failing() -> None:
        with decisions.intervened(model, "stem", Edit([99])):
            model(x)

    with pytest.raises(QueryError, match="channels"):
        failing()
    assert torch.equal(model(x), before) and not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())
    with pytest.raises(QueryError, match="stem"), decisions.intervened(model, "sten", Edit()):
        pass


def test_the_edited_module_may_be_channels_last() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.Flatten(), nn.Linear(15, 2))
    x = torch.randn(2, 3, 4)
    with decisions.intervened(model, "0", Edit([1], [2]), channel_axis=-1):
        logits = model(x)
    state = model[0](x)
    state[:, 2, 1] = 0
    torch.testing.assert_close(logits, model[2](state.flatten(1)))


def test_deletion_curves(graph, x) -> None:
    split = Split(graph, x[:1], "embed")
    order = [PRO, CONTRA, *(c for c in range(48) if c not in (PRO, CONTRA))]
    (curve,) = decisions.deletion(split, [order], counts=[0, 1, 2, 48])
    drop = decisions.intervene(split, [Edit([PRO]), Edit([PRO, CONTRA])])
    expected = (1 - drop.normalised[:, 0]).tolist()
    assert curve.deleted == (0.0, 1 / 48, 2 / 48, 1.0)
    assert curve.left == pytest.approx((1.0, expected[0], expected[1], expected[1]))
    assert Curve((0.0, 0.5, 1.0), (1.0, 1.0, 0.0)).area == pytest.approx(0.75)
    assert deletion_counts(48)[0] == 0 and deletion_counts(48)[-1] == 48 and deletion_counts(3) == [0, 1, 2, 3]
    with pytest.raises(QueryError, match="one input"):
        decisions.deletion(Split(graph, x, "embed"), [order])


# groups


def test_groups_are_nested_signed_and_matched() -> None:
    scores = torch.tensor([5.0, -4.0, 0.1, 3.0, -9.0, 0.2, 0.0, 0.3])
    level = torch.tensor([1.0, 9.0, 1.1, 5.0, 2.0, 4.0, 0.9, 7.0])
    groups = decisions.choose(scores, level, 3, repeats=50)
    assert groups.positive == (0, 3, 7) and groups.negative == (4, 1, 6)
    assert groups.matched == (2, 5, 1)  # 1.0 -> 1.1 (0.9 is as near and later), 5.0 -> 4.0, 7.0 -> 9.0
    assert groups.of("positive", 2) == [[0, 3]] and len(groups.of("random", 2)) == 50
    for order in groups.random:
        assert len(set(order)) == 3
    drawn = np.bincount(np.ravel(groups.random), minlength=8)
    assert (drawn > 0).all()  # every channel may be drawn, the chosen ones too
    assert decisions.choose(scores, level, 3, repeats=50) == groups
    assert decisions.choose(scores, level, 3, repeats=50, seed=1) != groups
    with pytest.raises(QueryError, match="1 to 4"):
        decisions.choose(scores, level, 5)


# means


def test_means_are_those_of_all_inputs_whatever_the_batches(graph, tmp_path: Path) -> None:
    plan = sgfi.plan(graph, target="embed", boundaries=[])
    x = pictures(7)
    means = decisions.activation_means(plan, [x[:4], x[4:]])
    torch.testing.assert_close(means["embed"], Known().embed(x).mean((0, 2, 3)).detach())
    torch.testing.assert_close(means["input"], x.mean((0, 2, 3)))
    decisions.save_means(means, tmp_path, graph.fingerprint)
    again = decisions.load_means(tmp_path, graph.fingerprint)
    assert all(torch.equal(again[name], means[name]) for name in means)
    with pytest.raises(StoreError, match="Collect them again"):
        decisions.load_means(tmp_path, "other")
    with pytest.raises(StoreError, match="none in"):
        decisions.load_means(tmp_path / "nowhere", graph.fingerprint)
    (tmp_path / "means.safetensors").write_bytes(b"broken")
    with pytest.raises(StoreError, match="readable"):
        decisions.load_means(tmp_path, graph.fingerprint)
    with pytest.raises(CalibrationError):
        decisions.activation_means(plan, [])
    with pytest.raises(StoreError):
        decisions.save_means(means, tmp_path / "nowhere", graph.fingerprint)


# the whole experiment

STORED = Path(__file__).parents[2] / "docs" / "results" / "decisions"


@pytest.fixture(scope="module")
def family(mirrored) -> sgfi.MapFamily:
    plan = sgfi.plan(mirrored, target="embed", boundaries=[])
    return sgfi.calibrate(plan, pictures(64).split(16), progress=False)


@pytest.fixture(scope="module")
def studied(family) -> decisions.Study:
    x = pictures(8, seed=9)
    means = decisions.activation_means(family.plan, pictures(64).split(16))
    settings = DecisionSettings(depths=("embed",), sizes=(1, 4), repeats=200, curve_repeats=3, resamples=2000)
    return decisions.study(family, x, means, settings, ["a", "b"])


def test_the_study_finds_what_was_built_in(family, studied) -> None:
    (depth,) = studied.depths
    x = pictures(8, seed=9)
    state = Known(mirror=True).embed(x)[(slice(None), PRO, *PLACE)]
    assert studied.margin == pytest.approx(BIAS) and set(studied.top) == {0}
    for groups, value in zip(depth.groups, state, strict=True):
        expected = (PRO, CONTRA) if value > 0 else (CONTRA, PRO)
        assert (groups.positive[0], groups.negative[0]) == expected
    size = state.abs().detach().numpy()
    assert depth.drop["zero"]["positive"][:, 0, 0] == pytest.approx(size)
    assert depth.drop["zero"]["negative"][:, 1, 0] == pytest.approx(-size)
    assert depth.drop["zero"]["matched"].shape == (8, 2, 1) and depth.drop["mean"]["random"].shape == (8, 2, 200)
    assert depth.flipped["zero"]["positive"][:, 0, 0].tolist() == (size > BIAS).tolist()
    assert studied.names[:3] == ("a", "b", "input 2")


def test_random_groups_centre_on_zero_and_the_gate_is_signed(studied) -> None:
    gate = decisions.gate(studied)
    for line in gate.lines:
        assert line.random.low <= 0 <= line.random.high
        assert abs(line.random.mean) < 0.15 * line.positive["mean"].interval.mean
    counts = gate.counts()
    assert counts["mean > 0"] == counts["zero > 0"] == counts["terminal negative < 0"] == [2, 2]
    flips = (studied.depths[0].flipped["mean"]["positive"][:, 1]).mean()
    assert counts["flip range at k=4"] == pytest.approx([flips, flips])
    assert "2/2" in gate.summary() and gate.table().count("embed") == 2


def test_the_gate_fails_where_the_signs_are_wrong(studied) -> None:
    (depth,) = studied.depths
    swapped = {p: {**k, "positive": k["negative"], "negative": k["positive"]} for p, k in depth.drop.items()}
    gate = decisions.gate(replace(studied, depths=(replace(depth, drop=swapped),)))
    assert gate.counts()["mean > 0"] == [0, 2] and gate.counts()["terminal negative < 0"] == [0, 2]


def test_the_study_is_plain_json_and_its_curves_have_intervals(studied) -> None:
    record = json.loads(json.dumps({**studied.as_dict(), "gate": decisions.gate(studied).as_dict()}))
    assert record["interventions"] == 8 * 2 * 2 * (3 + 200) and record["inversions"] == 8 * 2 * len(KINDS)
    assert record["curves"] == 24 and len(record["images"]) == 8
    curves = curve_summary(studied)["embed"]
    assert curves["positive"]["area"]["mean"] < curves["random"]["area"]["mean"] < curves["negative"]["area"]["mean"]


def test_a_stored_study_is_summarised_as_the_study_itself(studied) -> None:
    record = json.loads(json.dumps(studied.as_dict()))
    again = decisions.Study.from_dict(record)
    assert json.loads(json.dumps(again.as_dict())) == record
    pairs = zip(decisions.gate(again).lines, decisions.gate(studied).lines, strict=True)
    for own, line in pairs:
        assert own.normalised.as_dict() == pytest.approx(line.normalised.as_dict(), rel=1e-4)
        assert own.positive["mean"].interval.as_dict() == pytest.approx(
            line.positive["mean"].interval.as_dict(), rel=1e-4
        )
        assert own.flips == line.flips
    area, own = (curve_summary(each)["embed"]["negative"]["area"] for each in (studied, again))
    assert own == pytest.approx(area, rel=1e-4)
    with pytest.raises(DataError, match="sgfi decide wrote"):
        decisions.Study.from_dict({**record, "depths": [{"node": "embed"}]})


@pytest.mark.parametrize("folder", sorted(STORED.glob("*-decide")), ids=lambda folder: folder.name)
def test_published_ratios_are_those_of_the_published_study(folder: Path) -> None:
    """Written by ``sgfi decide --from``: margins vary with the images, and nothing deleted leaves exactly all of it."""
    record = json.loads((folder / "results.json").read_text())
    study = decisions.Study.from_dict(record["study"])
    first = decisions.gate(replace(study, depths=study.depths[:1])).lines
    assert len(first) == len(study.settings.sizes)
    for line, stored in zip(first, record["gate"]["lines"], strict=False):
        own = line.normalised
        within = 0.02 * (own.high - own.low)
        published = stored["normalised"]
        assert [published[key] for key in ("mean", "low", "high")] == pytest.approx(
            [own.mean, own.low, own.high], abs=within
        )
        assert str(line.normalised) in (folder / "gate.md").read_text()
    for depth in study.depths:
        for curve in record["deletion"][depth.node].values():
            assert [curve["left"][0][key] for key in ("mean", "low", "high")] == [1, 1, 1]


def test_ratios_to_the_margin_are_formed_inside_each_resample(studied) -> None:
    """Margins that differ from image to image: where nothing was deleted, all of the margin is left, without doubt."""
    varied = replace(studied, margin=np.linspace(0.1, 3.0, 8))
    start = curve_summary(varied)["embed"]["random"]["left"][0]
    assert (start["mean"], start["low"], start["high"]) == (1.0, 1.0, 1.0)
    (depth,) = varied.depths
    share = np.full_like(depth.drop["mean"]["positive"], 0.25) * varied.margin[:, None, None]  # a quarter of each
    drop = {**depth.drop["mean"], "positive": share, "random": np.zeros_like(depth.drop["mean"]["random"])}
    (line, _) = decisions.gate(replace(varied, depths=(replace(depth, drop={**depth.drop, "mean": drop}),))).lines
    assert [line.normalised.mean, line.normalised.low, line.normalised.high] == pytest.approx([0.25] * 3)


def test_the_study_takes_any_estimator(mirrored) -> None:
    estimator, x = Backpropagation(mirrored, ("embed",)), pictures(3, seed=9)
    means = decisions.activation_means(estimator, [pictures(8)])
    assert set(means) == {"input", "embed"}
    settings = DecisionSettings(sizes=(1, 4), repeats=3, curve_repeats=1, resamples=200)
    (depth,) = decisions.study(estimator, x, means, settings).depths
    assert depth.node == "embed" and depth.channels == 48  # the only target with 32 channels or more
    queries = [sgfi.Query("embed", groups.of("positive", 4)[0]) for groups in depth.groups]
    expected = [
        pixel_cosine(sgfi.sweep(estimator, x[i : i + 1], [q])[0].value, x[i : i + 1]) for i, q in enumerate(queries)
    ]
    assert depth.alignment["positive"][:, 1] == pytest.approx(torch.cat(expected).numpy())


@pytest.mark.parametrize(("channels", "sizes"), [(48, (1, 4, 8, 16)), (24, (1, 4, 8)), (7, (1,)), (2, (1,))])
def test_default_sizes_leave_as_many_other_channels(channels: int, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, channels, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(channels * 36, 4)
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    estimator = Backpropagation(sgfi.capture(model, x), ("0",))
    settings = DecisionSettings(repeats=2, curve_repeats=0, protocols=("zero",), resamples=50)
    outcome = decisions.study(estimator, x, None, settings)
    assert outcome.settings.sizes == sizes and outcome.depths[0].channels == channels


def test_the_old_name_of_the_settings_still_works() -> None:
    with pytest.warns(DeprecationWarning, match="DecisionSettings"):
        assert decisions.Settings is DecisionSettings
    with pytest.raises(AttributeError):
        decisions.Nothing  # noqa: B018


def test_settings_are_declared_and_checked(family) -> None:
    given = DecisionSettings(sizes=(1, 2), depths=("embed",))
    assert DecisionSettings.from_dict(json.loads(json.dumps(given.as_dict()))) == given
    with pytest.raises(DataError, match="sizes"):
        DecisionSettings.from_dict({"size": [1]})
    for wrong in ({"sizes": (4, 1)}, {"sizes": (0, 1)}, {"sizes": ("a",)}, {"repeats": 0}, {"protocols": ("median",)}):
        with pytest.raises(QueryError):
            DecisionSettings(**wrong)
    with pytest.raises(QueryError, match="calibration means"):
        decisions.study(family, pictures(1), None, given)


def test_means_are_of_the_planned_channels() -> None:
    layers = [nn.Linear(6, 6), nn.Tanh(), nn.Flatten(), nn.Linear(24, 3)]
    model, x = nn.Sequential(*layers).double().eval(), torch.randn(8, 4, 6).double()
    graph = sgfi.capture(model, x)
    plan = sgfi.plan(graph, "1", ["0"], axes={"0": 1, "1": 1, "input": 1})
    means = decisions.activation_means(plan, [x[:3], x[3:]])
    assert means["0"].shape == (4,)
    torch.testing.assert_close(means["0"], model[0](x).mean((0, 2)).detach())
    split = Split(graph, x[:1], plan.boundary["0"].node, "3")
    with pytest.raises(QueryError, match="channel values"):
        decisions.intervene(split, [Edit((1,))], torch.zeros(6))  # as many as there are along the other axis

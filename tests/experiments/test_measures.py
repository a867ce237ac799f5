"""Options of measures: other estimators beside the maps, correctly classified images only, boundaries by number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.decisions import decide
from sgfi.errors import DataError, PlanError, QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.experiments import Experiment, Result, declare
from sgfi.experiments.cases import Bench, Case
from sgfi.experiments.measures import MEASURES, costs
from sgfi.experiments.measures.contestants import prior_of
from sgfi.experiments.measures.estimators import estimator_named
from sgfi.experiments.measures.registry import boundaries_at, correct_inputs, evaluation_inputs
from sgfi.experiments.results import markdown
from sgfi.inputs.data import read_image

Ran = Callable[..., Result]
BOTH = ["maps", "natural, point"]
NATURAL = "natural, point"


@pytest.fixture(scope="module")
def case(toy: Callable[..., Experiment], room: Path, ran: Ran) -> Case:
    return Bench(room / "work" / "families").case("local", toy("topology").settings("local"))


@pytest.mark.parametrize(
    ("measure", "options", "row"),
    [
        ("alignment", {"stages": ["final"]}, "final"),
        ("representation", {}, "matched"),
        ("zero", {}, "zero"),
        ("shuffles", {}, "same"),
        ("swap", {}, "H_A J_B"),
        ("channel_diversity", {}, "channels"),
        ("selectivity", {"channels": 3, "cells": 2}, "channels"),
        ("interpolation", {"points": [0, 1]}, "1"),
        ("faithfulness", {"nodes": [1, 2]}, "lowest quartile"),
        ("reuse", {"depths": [1, -1], "channels": [0], "group": 2}, "channel 0"),
        ("coordinates", {"images": 1, "depths": [-1]}, "three"),
        (
            "decisions",
            {"images": 1, "depths": [-1], "settings": {"sizes": [1], "repeats": 2, "curve_repeats": 0}},
            "three, k=1",
        ),
    ],
)
def test_the_natural_inverse_has_rows_of_its_own(case: Case, measure: str, options: dict, row: str) -> None:
    """Beside those of the maps, which it does not change; by itself it needs no calibrated maps."""
    take = MEASURES[measure].take
    both, alone = take(case, **options, estimators=BOTH), take(case, **options)
    assert row in both and f"{row}, {NATURAL}" in both
    assert set(alone) <= set(both)
    for score, values in alone[row].items():
        sides = values if isinstance(values, dict) else {"": values}  # of a ratio both
        own = both[row][score] if isinstance(values, dict) else {"": both[row][score]}
        assert all(own[side] == pytest.approx(sides[side], nan_ok=True) for side in sides)
    drawn = both[f"{row}, {NATURAL}"]
    same = drawn == {score: both[row][score] for score in drawn}
    assert same == (measure == "zero")  # of both, a target of zero gives exactly zero


def test_without_maps_nothing_is_calibrated(toy: Callable[..., Experiment], tmp_path: Path) -> None:
    case = Bench(tmp_path).case("local", toy("topology").settings("local"))
    table = MEASURES["swap"].take(case, estimators=[NATURAL])
    assert set(table) == {f"{row}, {NATURAL}" for row in ("H_A J_A", "H_A J_B", "H_B J_A", "H_B J_B")}
    assert not list(tmp_path.glob("*.json"))  # the note of a finished family
    with pytest.raises(QueryError, match="Did you mean 'maps'"):
        MEASURES["swap"].take(case, estimators=["mapps"])


def test_another_estimator_is_asked_about_the_plan_s_target_and_judged_about_its_own_origin(case: Case) -> None:
    natural = estimator_named(case, NATURAL)
    x = evaluation_inputs(case)
    plain = sgfi.natural(case.plan.graph, prior_of(case), jacobian="point")
    value = sgfi.invert(plain, x, "three").value
    torch.testing.assert_close(sgfi.invert(natural, x).value, value)
    assert natural.target == "three" and natural.targets == case.plan.boundaries[1:]
    swapped = MEASURES["swap"].take(case, estimators=[NATURAL])[f"H_A J_A, {NATURAL}"]["to_A"]
    assert swapped == pytest.approx(pixel_cosine(value, x - plain.origin).tolist(), abs=1e-5)
    aligned = MEASURES["alignment"].take(case, stages=["final"], estimators=[NATURAL])[f"final, {NATURAL}"]
    assert aligned["pixel_cosine"] == pytest.approx(pixel_cosine(value + plain.origin, x).tolist(), abs=1e-5)


def test_measures_of_the_maps_alone_refuse_other_estimators() -> None:
    for name in ("mechanism", "true_child_oracle", "public_path"):
        with pytest.raises(DataError, match="options of"):
            declare("topology", {"measures": {name: {"estimators": BOTH}}})


def test_tables_show_the_rows_of_every_estimator(ran: Ran) -> None:
    result = ran("faithfulness", {"measures": {"faithfulness": {"nodes": [1, 2], "estimators": BOTH}}})
    text = markdown(result)
    assert f"| lowest quartile, {NATURAL} |" in text and "| one |" not in text


def test_faithfulness_is_probed_where_it_is_said(case: Case) -> None:
    assert set(MEASURES["faithfulness"].take(case, nodes=[1, -2])) == {
        "one",
        "add",
        "path",
        "lowest quartile",
        "Spearman",
    }
    with pytest.raises(PlanError, match="from 0 to 3"):
        MEASURES["faithfulness"].take(case, nodes=[4])


def test_boundaries_by_number_name_and_variant(case: Case, toy: Callable[..., Experiment], room: Path) -> None:
    assert boundaries_at(case, [0, 1, -1, "two"]) == ["input", "one", "three", "two"]
    assert boundaries_at(case, {"local": [2], "global": [1]}) == ["add"] and boundaries_at(case, {"global": [1]}) == []
    numbered = toy("topology", {"plan": {"target": 1, "boundaries": "stage"}}).settings("local")
    plan = Bench(room / "work" / "families").case("local", numbered).plan
    assert plan.target == sgfi.plan(plan.graph).boundaries[1]


def test_only_correctly_classified_images(
    case: Case, toy: Callable[..., Experiment], room: Path, tmp_path: Path
) -> None:
    """Folders are classes: by number, or else in their order."""
    graph, files = case.plan.graph, sorted((room / "photos").iterdir())
    for names in (["0", "1", "2", "3"], ["ant", "bee", "cat", "dog"]):
        for folder in names:
            (tmp_path / names[0] / folder).mkdir(parents=True)
        for index, file in enumerate(files):
            top = int(decide(graph, read_image(file, case.loaded.preprocessing)).top)
            folder = names[top if index % 2 else (top + 1) % 4]  # every second one is in the wrong folder
            (tmp_path / names[0] / folder / file.name).write_bytes(file.read_bytes())
        for folder in names:  # classes of which no image was drawn still count
            (tmp_path / names[0] / folder / "more.png").write_bytes(sorted((room / "more").iterdir())[0].read_bytes())
        data = {"evaluation": str(tmp_path / names[0]), "evaluation_count": 10, "calibration": str(room / "more")}
        labelled = Bench(room / "work" / "families").case("local", toy("topology", {"data": data}).settings("local"))
        kept = correct_inputs(labelled, 2)
        every, labels = evaluation_inputs(labelled), torch.tensor(labelled.evaluation.labels)
        right = decide(graph, every).top == labels
        assert 2 <= int(right.sum()) < 10 and torch.equal(kept, every[right][:2])
        with pytest.raises(DataError, match="correctly classified"):
            correct_inputs(labelled, 10)
        options = {"images": 2, "correct": True, "depths": [-1], "settings": {"inversions": False}}
        rows = MEASURES["coordinates"].take(labelled, **options)
        assert len(rows["three"]["top_minus_random"]) == 2
    with pytest.raises(DataError, match="folder for each class"):
        correct_inputs(case, 2)


def test_the_seconds_of_an_answer_have_no_calibration_in_them(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Unfitted(Case):
        @property
        def family(self) -> sgfi.MapFamily:  # type: ignore[override]
            clock[0] += 1000
            return case.family

    unfitted = Unfitted(**{field.name: getattr(case, field.name) for field in fields(case)})
    monkeypatch.setattr("sgfi.experiments.measures.baselines.time.perf_counter", lambda: clock[0])
    rows = MEASURES["iterative"].take(unfitted, images=2, seeds=[0], search={"steps": 1})
    assert rows["closed form"]["seconds_an_image"] == rows["iterative"]["seconds_an_image"] == 0


def test_latency_is_a_median_over_the_loads_asked_for(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter([3.0, 1.0, 2.0, 10.0])  # three repeats, then the search
    monkeypatch.setattr(costs, "_timed", lambda load, answer: next(spent))
    options = {"queries": 2, "loads": ["images"], "timed_steps": 5, "search": {"steps": 20}}
    assert costs.latency(case, **options) == {"images": {"closed_form_seconds": 2.0, "search_seconds": 40.0}}
    with pytest.raises(DataError, match="loads"):
        costs.latency(case, loads=["pictures"])

"""The measure of pictures: resumed parts, tables on a page of the docs, and what the docs hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sgfi.errors import DataError, QueryError
from sgfi.evaluation.pictures import METHODS
from sgfi.experiments import Experiment, Result, answer_tables
from sgfi.experiments.answer_tables import MARKS, filled
from sgfi.experiments.exhibits import exhibit
from sgfi.experiments.ledger import Ledger
from sgfi.experiments.measures.contestants import ESTIMATORS
from sgfi.experiments.quotations import quoted
from sgfi.figures.experiments import experiment_figure
from sgfi.figures.methods import methods_figure
from sgfi.inversion import Query

Ran = Callable[..., Result]
DOCS = Path(__file__).resolve().parents[2] / "docs"
LIGHT = [name for name in METHODS if name != "accentuation"]


def options(**more: object) -> dict:
    given = {"targets": ["one", "three"], "queries": {"channels": 3, "cells": 3}, "controls": 1}
    return {"measures": {"answers": {**given, **more}}}


def test_every_method_on_a_tiny_network(ran: Ran) -> None:
    methods = [*ESTIMATORS, *(name for name in LIGHT if name != "guided backpropagation")]
    result = ran("answers", options(methods=methods, images=3, fewer={"SmoothGrad": 1}))
    rows = result.tables["answers"]["as declared"]
    assert set(rows) == {f"{m}, {t}, {k}" for m in methods for t in ("one", "three") for k in ("channels", "cells")}
    for row, scores in rows.items():
        count = 1 if row.startswith("SmoothGrad") else 3
        assert len(scores["own_size"]["values"]) == count and scores["size_size"]["mean"] == pytest.approx(0.15)
        assert -1 <= scores["occlusion_agreement"]["mean"] <= 1 and 0 <= scores["excites_itself"]["mean"] <= 1
        assert ("zero" in scores) == row.startswith(tuple(ESTIMATORS))
    for method in ("natural, path", "maps"):
        assert rows[f"{method}, three, channels"]["zero"]["mean"] == 0
        assert len(rows[f"{method}, three, channels"]["random_cosine"]["values"]) == 1
    text = answer_tables.answer_tables(result)
    line = answer_tables.answer_summary([result, result]).splitlines()[2]
    assert line.startswith("| build, 3x8x8 | `one` | 3 | 3 / 3 |") and line.endswith(" |")
    assert f"{rows['natural, path, one, channels']['best_at_own_size']['mean']:.2f} / " in line.split("|")[5]
    panel = experiment_figure(result).axes[0]  # a line for each tensor and kind, a mark for each method
    assert [label.get_text() for label in panel.get_yticklabels()][:2] == ["one, channels", "one, cells"]
    assert {label.get_text() for label in panel.get_legend().get_texts()} == set(methods)
    assert "trained decoder" in text and "(fewer: SmoothGrad 1)" in text and "zero" in text and "a pilot" in text


def test_every_method_has_its_intervals(ran: Ran) -> None:
    result = ran("answers", options(methods=["gradient", "raw VJP"], images=5, fewer={"raw VJP": 4}))
    score = result.tables["answers"]["as declared"]["gradient, one, channels"]["best_at_own_size"]
    text = answer_tables.answer_tables(result)
    (line,) = [line for line in text.split("95 % bootstrap")[1].splitlines() if line.startswith("| gradient")]
    assert line.startswith(f"| gradient | {score['low']:.2f} to {score['high']:.2f} / ") and "a pilot" not in text
    assert "raw VJP" not in text.split("95 % bootstrap")[1]  # too few inputs for one


def test_misuse_is_named(ran: Ran) -> None:
    with pytest.raises(QueryError, match="Did you mean"):
        ran("answers", options(methods=["gradiant"]))
    with pytest.raises(QueryError, match="the one after the last"):
        ran("answers", options(images=[2, 1]))
    with pytest.raises(QueryError, match="inputs and methods to measure"):  # not an empty table
        ran("answers", options(methods=["gradient"], images=[1, 3], fewer={"gradient": 1}))
    with pytest.raises(QueryError, match="strongest"):
        ran("answers", options(queries={"strongest": "loudest"}))
    with pytest.raises(QueryError, match="ReLU"):
        ran("answers", options(methods=["guided backpropagation"], images=2))


def test_finished_parts_are_kept_and_a_cut_line_is_not(tmp_path: Path) -> None:
    calls: list[str] = []

    def measured(name: str) -> dict[str, float]:
        calls.append(name)
        return {"score": float(len(calls))}

    first = Ledger(tmp_path, {"a": 1})
    assert first.take("x", lambda: measured("x")) == {"score": 1.0} and first.take("y", lambda: measured("y"))
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text() + '["z", {"sco')
    again = Ledger(tmp_path, {"a": 1})
    assert again.take("x", lambda: measured("x")) == {"score": 1.0} and "z" not in again and calls == ["x", "y"]
    again.take("z", lambda: measured("z"))
    assert [json.loads(line)[0] for line in file.read_text().splitlines()] == ["x", "y", "z"]
    assert "x" not in Ledger(tmp_path, {"a": 2})


@pytest.mark.parametrize("page", ["natural.md", "answers.md"])
def test_tables_in_the_docs_are_those_of_the_results(page: str) -> None:
    """``sgfi experiment fill docs/<page>`` changes nothing."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert MARKS.search(text) is not None and filled(text, DOCS) == text
    assert filled(text.replace("0.9", "0.8"), DOCS) != text.replace("0.9", "0.8")  # a number typed by hand is seen


def test_results_name_no_folder_of_a_machine() -> None:
    for file in DOCS.glob("results/experiments/answers*/result.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        assert "/work" not in record["provenance"]["command"] and '"/' not in json.dumps(record["experiment"]), file


def test_other_results_have_no_such_tables(ran: Ran) -> None:
    with pytest.raises(DataError, match="answers"):
        answer_tables.answer_tables(ran("topology"))


@pytest.mark.usefixtures("_captured_once")
def test_one_query_by_every_method(toy: Callable[..., Experiment], room: Path) -> None:
    methods = ["natural, path", "gradient"]
    shown = exhibit(toy("answers", options(methods=methods)), room / "work", Query("three", 1), 1)
    assert [method for method, _, _ in shown.drawn] == methods and shown.drawn[0][1].shape == shown.x.shape
    assert all(removed > 0 for _, _, removed in shown.drawn)
    figure = methods_figure(shown)
    assert any("natural, path" in text.get_text() for axes in figure.axes for text in axes.texts) or figure.texts
    with pytest.raises(QueryError, match="names its target"):
        exhibit(toy("answers", options(methods=methods)), room / "work", Query(None, 1))


def test_runs_of_other_methods_on_the_same_inputs_are_one_table(ran: Ran, tmp_path: Path) -> None:
    first, second = (ran("answers", options(methods=[method], images=2)) for method in ("natural, path", "gradient"))
    rows = answer_tables.joined([first, second]).tables["answers"]["as declared"]
    assert rows == {**first.tables["answers"]["as declared"], **second.tables["answers"]["as declared"]}
    assert answer_tables.joined([first, first]).tables == first.tables
    for name, result in (("a", first), ("b", second)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(result.as_dict()), encoding="utf-8")
    page = filled("<!-- answers: a+b -->\n<!-- /answers -->", tmp_path)
    assert "| natural, path |" in page and "| gradient |" in page
    left = filled("<!-- answers: a+b; without occlusion_agreement likeness -->\n<!-- /answers -->", tmp_path)
    changed = [(old, new) for old, new in zip(page.splitlines()[1:], left.splitlines()[1:], strict=True) if old != new]
    assert len(changed) == 2 and all(new.endswith("| - / - | - / - |") for _, new in changed)
    with pytest.raises(DataError, match="a score of the result"):
        filled("<!-- answers: a; without loudness -->\n<!-- /answers -->", tmp_path)
    other = ran("answers", options(methods=["gradient"], images=2, queries={"channels": 2, "cells": 3}))
    with pytest.raises(DataError, match="the same network and queries"):
        answer_tables.joined([first, other])


def test_of_two_runs_the_longer_stands_and_gaps_and_other_code_are_not_joined_in_silence(ran: Ran) -> None:
    short, whole, apart, later = (
        ran("answers", options(methods=["gradient"], images=images)) for images in (2, 4, [3, 4], [2, 4])
    )
    row = "gradient, one, channels"

    def values(*runs: Result) -> list[float]:
        return answer_tables.joined(runs).tables["answers"]["as declared"][row]["own_size"]["values"]

    assert values(short, whole) == values(whole, short) == values(short, later) and len(values(short, whole)) == 4
    assert len(values(short, apart)) == 2  # the third input is in neither
    words = "First and later inputs by two versions of the code: gradient."
    other = replace(later, provenance={**later.provenance, "code": "another"})
    assert words in answer_tables.answer_tables(answer_tables.joined([short, other]))
    assert words not in answer_tables.answer_tables(answer_tables.joined([short, later]))


def test_a_run_on_later_inputs_is_put_behind_the_first(ran: Ran, tmp_path: Path) -> None:
    whole, first, later = (
        ran("answers", options(methods=["gradient", "maps"], fewer={"maps": 1}, **given))
        for given in ({"images": 4}, {"images": 2}, {"images": [2, 4]})
    )
    rows = answer_tables.joined([later, first]).tables["answers"]["as declared"]
    expected = whole.tables["answers"]["as declared"]
    assert set(rows) == set(expected)
    for row, scores in expected.items():
        for name in ("own_size", "best_at_own_energy", "likeness"):
            ours, whole_scores = rows[row][name], scores[name]
            assert ours["values"] == whole_scores["values"], (row, name)
            assert [ours[key] for key in ("mean", "low", "high")] == pytest.approx(
                [whole_scores[key] for key in ("mean", "low", "high")], rel=1e-4
            )
    for name, result in (("a", first), ("b", later)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(result.as_dict()), encoding="utf-8")
    address = next(f"answers/as declared/{row}/own_size" for row in expected if row.startswith("gradient"))
    both, alone = (quoted(f"9.9999<!-- {name} {address} -->", tmp_path) for name in ("a+b", "a"))
    assert both.startswith(f"{whole.at(address)['mean']:.4f}<") and both[:6] != alone[:6]

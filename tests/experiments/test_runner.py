"""Declarations, samples, resuming, results and comparisons."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sgfi
from sgfi.errors import DataError
from sgfi.experiments import Experiment, Result, available, compare, declare, overlay, read_result
from sgfi.experiments.cases import Bench
from sgfi.experiments.measures import MEASURES, controls
from sgfi.experiments.measures.registry import evaluation_batches, measure, quotient
from sgfi.experiments.provenance import LOST, ancestors, code_digest, describe_code, with_known_commits
from sgfi.experiments.results import FILE, Verdict, number, summarise, verdicts
from sgfi.experiments.sampling import draw, open_source
from sgfi.figures.experiments import experiment_figure, panels_of
from sgfi.inputs.models import load_model

Ran = Callable[..., Result]


@pytest.mark.parametrize(
    ("change", "near"),
    [
        ({"dato": {}}, "data"),
        ({"data": {"calibration_cout": 3}}, "calibration_count"),
        ({"plan": {"boundary": "full"}}, "boundaries"),
        ({"calibration": {"rigde": 0.1}}, "ridge"),
        ({"measures": {"alignement": {}}}, "alignment"),
        ({"measures": {"alignment": {"stage": []}}}, "stages"),
        ({"variants": {"a": {"calibrate": {}}}}, "calibration"),
        ({"model": {"wheights": "x"}}, "weights"),
        ({"pairs": {"transfert": {}}}, "transfer"),
        ({"figures": [{"measur": "alignment"}]}, "measure"),
    ],
)
def test_unknown_keys_name_the_nearest(change: dict, near: str) -> None:
    with pytest.raises(DataError, match=f"Did you mean '{near}'"):
        declare("topology", change)


def test_declarations_that_make_no_sense() -> None:
    with pytest.raises(DataError, match="Did you mean 'topology'"):
        declare("topologie")
    with pytest.raises(DataError, match="two or more"):
        declare("topology", {"data": {"batch": 1}})
    with pytest.raises(DataError, match="relation"):
        declare("topology", {"claims": [{"says": "", "left": "a/b/c/d", "relation": "~", "right": 0}]})
    for wrong in (6.5, [{"": 0.0}], ["a"]):
        with pytest.raises(DataError, match="mapping"):
            declare("topology", {"model": wrong})
        with pytest.raises(DataError, match="mapping"):
            declare("topology", {"variants": {"a": {"model": wrong}}})
    with pytest.raises(DataError, match="without '/'"):
        declare("topology", {"variants": {"a/b": {}}})


def test_overlays_merge_sections_and_replace_variants() -> None:
    merged = overlay({"data": {"a": 1, "b": 2}, "variants": {"x": {}}}, {"data": {"b": 3}, "variants": {"y": {}}})
    assert merged == {"data": {"a": 1, "b": 3}, "variants": {"y": {}}}
    experiment = declare("ridge", {"calibration": {"children": "online"}})
    assert experiment.settings("0.03").calibration == {"ridge": 0.03, "children": "online", "stages": 2}
    one_option = declare("answers", settings=[{"measures": {"answers": {"images": 3}}}])
    assert one_option.measures["answers"] == {**declare("answers").measures["answers"], "images": 3}
    data = experiment.as_dict()["data"]
    assert data["calibration_seed"] == 123 and data["evaluation_seed"] == 456


def test_every_shipped_file_is_named_and_titled() -> None:
    assert len(available()) >= 20 and all(available().values())
    assert all(declare(name).section and declare(name).figures for name in available())


def test_every_measure_is_used_by_a_shipped_experiment() -> None:
    used = {name for experiment in available() for name in declare(experiment).measures}
    assert used == set(MEASURES)


def test_a_measure_has_one_name() -> None:
    with pytest.raises(ValueError, match="two measures"):
        measure()(controls.alignment)


def test_samples_are_seeded_and_disjoint_by_contents(room: Path, tmp_path: Path) -> None:
    loaded = load_model(f"{room / 'tiny.py'}:build")
    for file in (room / "photos").iterdir():  # the same pictures under other names, in another folder
        (tmp_path / f"copy-{file.name}").write_bytes(file.read_bytes())
    source, copies = open_source(room / "photos", loaded), open_source(tmp_path, loaded)
    options = {"counts": (12, 5), "seeds": (123, 456), "batch": 4}
    fit, held = draw(source, copies, loaded, **options)
    assert not set(fit.marks) & set(held.marks) and len(fit.indices) == 12 and len(held.indices) == 5
    again, _ = draw(source, copies, loaded, **options)
    assert again.indices == fit.indices and again.digest == fit.digest
    more, same = draw(source, copies, loaded, **(options | {"counts": (15, 5)}))
    assert more.indices[:12] == fit.indices and same.indices == held.indices  # sizes are nested, evaluation stays
    both, _ = draw(source, copies, loaded, **options, mirror=True)
    assert both.digest != fit.digest and both.as_dict()["mirrored"] and sum(map(len, both.batches)) == 24
    with pytest.raises(DataError, match="16 calibration inputs"):
        draw(source, copies, loaded, **(options | {"counts": (16, 5)}))


def test_pictures_and_arrays_are_sources_too(room: Path, tmp_path: Path) -> None:
    loaded = load_model(f"{room / 'tiny.py'}:build")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", images=rng.integers(0, 256, (9, 10, 12, 3), dtype=np.uint8))
    np.save(tmp_path / "b.npy", rng.normal(size=(9, 3, 8, 8)).astype(np.float32))
    for name in ("a.npz", "b.npy"):
        source = open_source(tmp_path / name, loaded)
        fit, held = draw(source, source, loaded, counts=(4, 3), seeds=(1, 2), batch=2)
        assert [x.shape for x in held.batches] == [(2, 3, 8, 8), (1, 3, 8, 8)]
        assert not set(fit.indices) & set(held.indices)
    np.savez(tmp_path / "c.npz", pictures=np.zeros(3))
    for wrong in ("c.npz", "d.npz"):
        with pytest.raises(DataError):
            open_source(tmp_path / wrong, loaded)


def test_a_last_batch_of_one_joins_its_neighbour(ran: Ran, toy: Callable[..., Experiment], room: Path) -> None:
    case = Bench(room / "work" / "families").case("a", toy("topology").settings("local"))  # 5 images in batches of 4
    assert [len(x) for x in evaluation_batches(case)] == [5] and [len(x) for x in evaluation_batches(case, 3)] == [3]


def test_a_preset_refines_the_plan_of_its_case(toy: Callable[..., Experiment], tmp_path: Path) -> None:
    """Measures look at the plan that was fitted, also when the family is read back."""
    sections = toy("topology").settings("local")
    sections = replace(sections, plan={"boundaries": "stage"}, calibration={"preset": "aligned"})
    for _ in range(2):
        case = Bench(tmp_path).case("a", sections)
        assert set(case.family.maps) == set(case.plan.fitted) and case.family.plan.fitted == case.plan.fitted
        assert case.plan.boundary["input"].partition.kind == "custom"


def test_an_interrupted_run_goes_on(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    real = MEASURES["alignment"]

    def broken(case, **options):
        if case.label == "global":
            raise KeyboardInterrupt
        return real.take(case, **options)

    monkeypatch.setitem(MEASURES, "alignment", replace(real, take=broken))
    monkeypatch.setattr(type(real), "options", ["stages", "target", "images"])
    with pytest.raises(KeyboardInterrupt):
        ran("topology", work="interrupted", say=lines.append)
    assert [line.split(":")[0] for line in lines] == ["alignment of local"]
    monkeypatch.undo()
    lines.clear()
    result = ran("topology", work="interrupted", say=lines.append)
    assert lines[0] == "alignment of local: kept from before" and "kept" not in lines[1]
    fresh = ran("topology")
    assert result.tables == fresh.tables


def test_a_ratio_of_means_is_formed_inside_every_resample() -> None:
    below = [1.0, 2.0, 6.0]
    same = summarise(quotient([value / 4 for value in below], below), 200)
    assert [same[key] for key in ("mean", "low", "high")] == [0.25] * 3 and same["denominator"] == below
    varied = summarise(quotient([1.0, 1.0, 1.0], below), 200)
    assert varied["mean"] == pytest.approx(1 / 3) and varied["low"] < 0.3 and varied["high"] > 0.5
    assert summarise(quotient([1.0], [0.0]), 200) == {"mean": None, "numerator": [1.0], "denominator": [0.0]}


def test_pairs_that_are_named(ran: Ran) -> None:
    chosen = {"transfer": {"of": [["global", "local"]]}}
    assert list(ran("topology", {"pairs": chosen}).tables["transfer"]) == ["global -> local"]
    assert "transfer" not in ran("topology", {"pairs": chosen}, only=["global"]).tables
    with pytest.raises(DataError, match="variants of a pair"):
        ran("topology", {"pairs": {"transfer": {"of": [["global", "lokal"]]}}})


def test_only_some_variants(ran: Ran) -> None:
    result = ran("topology", only=["global"])
    assert list(result.variants) == ["global"]
    assert {verdict.holds for verdict in verdicts(result)} == {None}
    with pytest.raises(DataError, match="variants among"):
        ran("topology", only=["elsewhere"])


def test_a_missing_model_data_set_or_variable_is_said(ran: Ran) -> None:
    with pytest.raises(DataError, match="--model"):
        ran("topology", {"model": {"spec": ""}})
    with pytest.raises(DataError, match="--data"):
        ran("topology", {"data": {"calibration": None}})
    with pytest.raises(DataError, match="NOT_SET_ANYWHERE"):
        ran("topology", {"data": {"calibration": "$NOT_SET_ANYWHERE/images"}})


def test_provenance_tells_everything_needed_to_run_again(ran: Ran) -> None:
    result = ran("topology", command="sgfi experiment run topology")
    about = result.variants["local"]
    assert len(about["model"]["fingerprint"]) == 64 and about["calibration"]["options"]["ridge"] == 0.01
    assert about["calibration"]["schedule"]["passes"] == 2 and set(
        about["calibration"]["schedule"]["chunks"].values()
    ) == {1}
    assert len(about["calibration"]["indices"]) == 12 and len(about["evaluation"]["indices"]) == 5
    assert result.provenance["packages"]["torch"] and result.provenance["command"] == "sgfi experiment run topology"
    assert result.experiment["data"]["calibration_seed"] == 123
    assert len(result.provenance["code"]) == 24 and {"commit", "dirty"} <= set(result.provenance)
    assert result.provenance["machine"]["cores"] and result.provenance["kernels"]["cpu_capability"]


def test_a_kept_unit_depends_on_variants_and_batches(ran: Ran) -> None:
    """Options may name a variant, and an image is crossed with another of its batch."""
    variants = {"shallow": {}, "deep": {}}
    depths = {"shallow": [1], "deep": [-1]}
    options = {
        "variants": variants,
        "measures": {"reuse": {"depths": depths, "images": 2}},
        "claims": [],
        "figures": [],
    }
    tables = ran("reuse", options).tables["reuse"]
    assert set(tables["shallow"]) != set(tables["deep"])
    swapped = [
        ran("information", {"measures": {"swap": {}}, "claims": [], "data": {"batch": batch}}, work="batches").tables
        for batch in (2, 5)
    ]
    assert swapped[0] != swapped[1]


def test_a_change_of_the_code_is_measured_again(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    ran("topology", say=lines.append)
    assert any("kept from before" in line for line in lines)
    monkeypatch.setattr("sgfi.experiments.runner.code_digest", lambda: "other code")
    lines.clear()
    ran("topology", say=lines.append)
    assert lines and not any("kept from before" in line for line in lines)


def test_declared_experiments_and_pictures_are_not_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: tmp_path / name for name in ("graph/a.py", "experiments/files/b.json", "cli/c.py")}
    for file in files.values():
        file.parent.mkdir(parents=True)
        file.write_text("1")
    monkeypatch.setattr(sgfi, "__file__", str(tmp_path / "__init__.py"))
    digest = code_digest.__wrapped__
    before = digest()
    for name in ("experiments/files/b.json", "cli/c.py"):
        files[name].write_text("2")
    assert digest() == before
    files["graph/a.py"].write_text("2")
    assert digest() != before


def test_results_survive_the_disk(ran: Ran, tmp_path: Path) -> None:
    result = ran("topology")
    (tmp_path / FILE).write_text(json.dumps(result.as_dict()))
    assert read_result(tmp_path).tables == json.loads(json.dumps(result.tables))
    with pytest.raises(DataError, match="experiment run first"):
        read_result(tmp_path / "nowhere")
    with pytest.raises(DataError, match="measure/variant/row/score"):
        result.at("alignment/local/final/nothing")


def test_compare_pairs_images_that_both_saw(ran: Ran) -> None:
    result, other = ran("topology"), ran("topology", {"calibration": {"ridge": 0.1}})
    text = compare(result, other)
    line = next(row for row in text.splitlines() if "alignment/local/raw/pixel_cosine" in row)
    assert line.endswith("0.000 [0.000, 0.000] paired |")  # the raw gradient knows no ridge
    elsewhere = ran("topology", {"data": {"evaluation_seed": 7}})
    assert "paired" not in compare(result, elsewhere)
    with pytest.raises(DataError, match="in common"):
        compare(result, ran("ridge"))


def test_undefined_numbers_are_counted_and_left_out() -> None:
    score = summarise([1.0, float("nan"), 3.0], 50)
    assert score["mean"] == 2 and score["undefined"] == 1 and score["values"] == [1, None, 3]
    assert summarise([float("nan")], 50)["mean"] is None and summarise(0.5, 50) == {"mean": 0.5}
    assert summarise([], 50)["mean"] is None


def test_numbers_are_short_and_tell_what_matters() -> None:
    assert [number(v) for v in (0.0, 0.12345, 12345.6, 1e-5, 1.0, 0.9999999, None)] == [
        *("0.000", "0.123", "12346", "1.0e-05", "1.000", "0.9999999", "undefined")
    ]


def test_claims_are_judged_on_numbers(ran: Ran) -> None:
    left, every = "alignment/local/final/pixel_cosine", "alignment/*/final/pixel_cosine"
    claims = [
        {"says": "one", "left": left, "relation": ">", "right": -1},
        {"says": "two", "left": left, "relation": "<", "right": -1},
        {"says": "three", "left": every, "relation": "=", "right": every},
        {"says": "four", "left": left, "relation": "<", "right": left, "factor": 2},
    ]
    judgements = verdicts(ran("topology", {"claims": claims}))
    assert [verdict.holds for verdict in judgements] == [True, False, True, True]
    assert "local: " in judgements[2].numbers and "global: " in judgements[2].numbers
    assert Verdict("", False, "").word == "DOES NOT HOLD"


@pytest.mark.parametrize("name", ["topology", "locality", "faithfulness"])
def test_figures(name: str, ran: Ran) -> None:
    figure = experiment_figure(ran(name))
    assert len(figure.axes) == len(declare(name).figures)
    assert all(axes.has_data() for axes in figure.axes)


def test_figures_of_measures_that_were_left_out_are_not_drawn(ran: Ran) -> None:
    result = ran("locality")
    last = result.experiment["figures"][-1]["measure"]
    fewer = replace(result, tables={name: table for name, table in result.tables.items() if name != last})
    assert panels_of(result) == result.experiment["figures"]
    assert panels_of(fewer) == [panel for panel in panels_of(result) if panel["measure"] != last]


def test_results_name_commits_that_can_be_checked_out(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *options, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    named = '{"commit": "%s", "dirty": false}'
    assert with_known_commits(named % ("0" * 40), tmp_path) == named % ("0" * 40)  # no repository: nothing is known
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    kept = git("rev-parse", "HEAD").strip()
    git("commit", "-q", "--allow-empty", "-m", "two")
    gone = git("rev-parse", "HEAD").strip()
    git("reset", "-q", "--hard", kept)  # still an object, no longer in the history
    text = "\n".join(named % commit for commit in (kept, gone, "0" * 40))
    assert with_known_commits(text, tmp_path) == "\n".join(named % commit for commit in (kept, LOST, LOST))
    assert describe_code({"commit": LOST}) == f"commit {LOST}"
    assert describe_code({"commit": kept, "dirty": True, "code": "ab"}).startswith(
        f"commit {kept[:12]}, changed since;"
    )


def test_the_project_s_own_results_name_no_lost_commit() -> None:
    root = Path(__file__).parents[2]
    if ancestors(root) is None:
        pytest.skip("no full history here")
    files = [file for folder in ("docs/results", "benchmarks/results") for file in (root / folder).rglob("*.json")]
    lost = [str(f.relative_to(root)) for f in files if with_known_commits(f.read_text(), root) != f.read_text()]
    assert not lost, "run: sgfi experiment commits docs/results benchmarks/results"

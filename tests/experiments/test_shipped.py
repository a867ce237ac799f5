"""Every shipped experiment runs end to end on a tiny network, and its numbers are right where they are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sgfi.decisions import DecisionSettings
from sgfi.errors import DataError, QueryError
from sgfi.evaluation.statistics import bootstrap
from sgfi.experiments import Result, available, declare
from sgfi.experiments.measured import measured_table
from sgfi.experiments.results import markdown, table, verdicts

Ran = Callable[..., Result]
NEEDS_ITS_OWN = {"checkpoints", "transfer", "components", "clip", *(n for n in available() if n.startswith("language"))}
"""Their variants differ in model, data or target; each has a test of its own, below, in test_language or test_hubs."""


def mean(result: Result, address: str) -> float:
    return result.at(address)["mean"]


@pytest.mark.parametrize("name", sorted(set(available()) - NEEDS_ITS_OWN))
def test_runs_end_to_end(name: str, ran: Ran) -> None:
    result = ran(name)
    experiment = declare(name)
    measured = {*experiment.measures, *experiment.across}
    assert set(result.variants) == set(experiment.variants) and set(result.tables) == measured
    assert all(score["mean"] is None or math.isfinite(score["mean"]) for _, score in result.scores())
    assert all(verdict.holds is not None for verdict in verdicts(result))  # every claim found its numbers
    text = markdown(result)
    assert experiment.title in text and all(measure in text for measure in experiment.measures)
    assert name == "answers" or len(measured_table([result]).splitlines()) > 2  # a page has its numbers
    for entry in experiment.paper:  # the paper's numbers stand at addresses that exist, on the paper's own variants
        measure, variant, *_ = entry["row"].split("/")
        assert measure in measured and any(fnmatchcase(v, variant) for v in experiment.variants)


def test_topology_changes_the_repair_and_not_the_raw_gradient(ran: Ran) -> None:
    result = ran("topology")
    assert mean(result, "alignment/local/raw/pixel_cosine") == mean(result, "alignment/global/raw/pixel_cosine")
    assert result.variants["global"]["fitted_nodes"] == 1 and result.variants["local"]["fitted_nodes"] == 3


def test_zero_is_zero_and_laws_hold(ran: Ran) -> None:
    result = ran("deployment")
    assert mean(result, "zero/as declared/zero/norm_ratio") == 0
    assert mean(result, "linearity/as declared/scale 0/error") == 0
    assert mean(result, "linearity/as declared/superposition/error") < 1e-5
    assert mean(result, "recomposition/as declared/first/error") < 1e-5
    assert mean(result, "composition/as declared/restart/error") < 1e-5
    assert mean(result, "public_path/as declared/public/largest_difference") < 1e-5
    assert all(verdict.holds for verdict in verdicts(result))


def test_mean_and_constant_seeds_are_one_estimator(ran: Ran) -> None:
    result = ran("seeds")
    for variant, score in product(result.variants, ("pixel_cosine", "relative_error", "norm_ratio")):
        values = [mean(result, f"seeds/{variant}/{kind}/{score}") for kind in ("mean", "constant")]
        assert values[0] == pytest.approx(values[1], rel=1e-4)
    ordinary = mean(ran("topology"), "alignment/local/final/pixel_cosine")
    assert mean(result, "seeds/recipe/mean/pixel_cosine") == pytest.approx(ordinary, rel=1e-4)


def test_permuting_frequencies_leaves_shared_maps_alone(ran: Ran) -> None:
    result = ran("frequencies")
    shared = [mean(result, f"permuted_frequencies/shared/{row}/pixel_cosine") for row in ("fitted", "permuted")]
    assert shared[0] == shared[1]
    own = [mean(result, f"permuted_frequencies/per frequency/{row}/pixel_cosine") for row in ("fitted", "permuted")]
    assert own[1] < own[0]


def test_theory_bridge_and_recursion(ran: Ran) -> None:
    result = ran("theory")
    assert mean(result, "theory/as declared/natural adjoint/difference_from_lmmse") < 1e-8
    assert mean(result, "theory/as declared/local LMMSE/nmse") == pytest.approx(
        mean(result, "theory/as declared/natural adjoint/nmse"), rel=1e-6
    )
    assert mean(result, "theory/as declared/local LMMSE/nmse") < mean(
        result, "theory/as declared/rescaled adjoint/nmse"
    )
    assert mean(result, "stability/as declared/all nodes/recursion_error") < 1e-3


def test_evaluation_images_do_not_depend_on_the_calibration(ran: Ran) -> None:
    sweep, subsets = ran("sizes"), ran("subsets")
    assert len({about["evaluation"]["digest"] for about in [*sweep.variants.values(), *subsets.variants.values()]}) == 1
    drawn = [set(about["calibration"]["indices"]) for about in subsets.variants.values()]
    assert drawn[0] != drawn[1]
    for about in [*sweep.variants.values(), *subsets.variants.values()]:
        assert not set(about["calibration"]["indices"]) & set(about["evaluation"]["indices"])


def test_spread_and_pooled_boundaries(ran: Ran) -> None:
    result = ran("subsets")
    means = [rows["final"]["pixel_cosine"]["mean"] for rows in result.tables["alignment"].values()]
    assert mean(result, "spread/all variants/final/pixel_cosine") == pytest.approx(np.std(means, ddof=1), rel=1e-3)
    pooled = ran("second-stage").tables["boundaries"]["all variants"]["Spearman"]
    assert pooled["boundaries"]["mean"] == 9 and -1 <= pooled["residual_and_state_repair"]["mean"] <= 1
    for name, change in (("spread", {"measures": {"zero": {}}}), ("boundaries", {"measures": {"zero": {}}})):
        with pytest.raises(DataError, match="Declare"):
            ran("subsets", change | {"across": {name: {}}})


def test_checkpoints(ran: Ran, room: Path) -> None:
    spec = {
        "first": {"model": {"spec": f"{room / 'tiny.py'}:build"}},
        "second": {"model": {"spec": f"{room / 'tiny.py'}:other"}},
    }
    result = ran("checkpoints", {"variants": spec})
    table = {pair: rows["final"] for pair, rows in result.tables["checkpoint"].items()}
    assert table["first -> second"]["refused"]["mean"] == 1 and table["second -> first"]["refused"]["mean"] == 1
    assert table["first -> first"]["refused"]["mean"] == 0
    assert table["first -> second"]["pixel_cosine"]["mean"] < table["second -> second"]["pixel_cosine"]["mean"]
    assert all(verdict.holds is not None for verdict in verdicts(result))


def test_decisions_have_normalised_effects_deletion_curves_and_a_gate(ran: Ran) -> None:
    rows = ran("decisions").tables["decisions"]["ResNet18"]
    settings = [row for row in rows if ", k=" in row]
    for row in settings:
        effect, share = rows[row]["positive_minus_random_mean"], rows[row]["normalised_effect"]
        assert share["numerator"] == effect["values"]
        assert share["mean"] == pytest.approx(effect["mean"] / np.mean(share["denominator"]), rel=1e-4)
        assert share["low"] <= share["mean"] <= share["high"]
    curves = {row: scores for row, scores in rows.items() if row.endswith(" deleted")}
    assert len(curves) == 5 and "three, 1 deleted" in curves  # of eight channels none, 1, 2, 4, 8
    for score in curves["three, 0 deleted"].values():  # nothing deleted leaves the margin, in every resample
        assert [score[key] for key in ("mean", "low", "high")] == [1, 1, 1]
    ends = [score["mean"] for score in curves["three, 1 deleted"].values()]  # all of them, in whatever order
    assert len(ends) == 3 and ends == pytest.approx([ends[0]] * 3, rel=1e-4)
    assert set(rows["three, deletion"]) == {"area_positive", "area_negative", "area_random"}
    counted = {name: score["mean"] for name, score in rows["signed gate"].items()}
    assert counted["settings"] == counted["terminal_settings"] == len(settings)
    for protocol in ("mean", "zero"):
        above = [bootstrap(rows[row][f"positive_minus_random_{protocol}"]["values"]).above_zero for row in settings]
        assert counted[f"above_zero_{protocol}"] == sum(above)
    shares = [rows[row]["normalised_effect"]["mean"] for row in settings]
    least, most = counted["least_normalised_effect"], counted["most_normalised_effect"]
    assert [least, most] == pytest.approx([min(shares), max(shares)])
    assert counted["most_flips_of_the_largest"] == pytest.approx(rows["three, k=2"]["flips"]["mean"])


def test_rows_that_share_no_score_have_tables_of_their_own(ran: Ran) -> None:
    tables = table(ran("decisions"), "decisions").split("\n\n")
    heads = [text.splitlines()[0].split(" | ")[2] for text in tables]
    assert heads == ["positive_minus_random_mean", "area_positive", "left_positive", "settings"]
    assert "signed gate" not in tables[0] and tables[3].count("signed gate") == 3  # once a variant
    assert "\n\n" not in table(ran("information"), "shuffles")


def test_decisions_are_declared_as_in_the_paper() -> None:
    experiment = declare("decisions")
    options = experiment.measures["decisions"]
    settings = DecisionSettings.from_dict(options["settings"])
    assert (options["images"], options["correct"], settings.repeats) == (16, True, 20)
    assert settings.sizes == (1, 4, 8, 16) and settings.protocols == ("mean", "zero")
    assert experiment.resamples == settings.resamples == 20_000
    assert options["depths"] == {"ResNet18": [3, 5, 7, 9], "ConvNeXt-B": [4, 7, 34, 37], "ViT-B-32": [2, 6, 10, 14]}
    assert set(options["depths"]) == set(experiment.variants)
    for label in experiment.variants:
        sections = experiment.settings(label)
        assert sections.data.calibration_count == 4096
        assert [Path(str(path)).name for path in (sections.data.calibration, sections.data.evaluation)] == [
            "train",
            "test",
        ]
    (cells,) = declare("coordinates").measures.values()
    assert cells["depths"] == [2, 8, 11, -1] and cells["images"] == 128 and cells["correct"]


def test_transfer(ran: Ran, room: Path) -> None:
    sets = {name: {"data": {"calibration": str(room / name)}} for name in ("photos", "more")}
    result = ran("transfer", {"variants": sets})
    assert set(result.tables["transfer"]) == {f"{a} -> {b}" for a in sets for b in sets}
    own = ran("recalibration", {"variants": sets})
    for name in sets:  # a set on itself is the ordinary evaluation
        assert mean(result, f"transfer/{name} -> {name}/final/pixel_cosine") == pytest.approx(
            mean(own, f"alignment/{name}/final/pixel_cosine"), abs=1e-5
        )
    assert mean(result, "transfer/photos -> more/final/pixel_cosine") != mean(
        result, "transfer/more -> more/final/pixel_cosine"
    )


def test_transfer_refuses_other_weights_and_shared_images(ran: Ran, room: Path) -> None:
    models = {name: {"model": {"spec": f"{room / 'tiny.py'}:{name}"}} for name in ("build", "other")}
    with pytest.raises(QueryError, match="share one checkpoint"):
        ran("transfer", {"variants": models})
    seeds = {"a": {"data": {"evaluation_seed": 456}}, "b": {"data": {"evaluation_seed": 457}}}
    with pytest.raises(QueryError, match="no variant was calibrated on"):
        ran("transfer", {"variants": seeds})


def test_components_of_every_kind(ran: Ran) -> None:
    targets = {"spatial": "three", "pooled": "mean", "logits": "head", "inner": "one"}
    variants = {label: {"plan": {"target": name, "boundaries": []}} for label, name in targets.items()}
    result = ran("components", {"variants": variants})
    about = result.variants
    assert about["pooled"]["coord_axes"] == [] and about["spatial"]["coord_axes"] == [2, 3]
    assert about["logits"]["shape"] == ["B", 4] and about["logits"]["fitted_nodes"] == 1


def test_decisions_and_coordinates(ran: Ran) -> None:
    rows = ran("decisions").tables["decisions"]["ResNet18"]
    assert {"three, k=1", "three, k=2"} <= set(rows) and len(rows["three, k=1"]["flips"]["values"]) == 3
    (row,) = ran("coordinates").tables["coordinates"]["as declared"].values()
    assert 0 < row["self_mass"]["mean"] < 1 and row["top_minus_random"]["mean"] > row["counter_minus_random"]["mean"]


def test_the_paper_s_component_targets_are_the_engine_s_names() -> None:
    """Spelled as ``sgfi graph`` spells them; the shapes are the paper's, checked on the real architecture."""
    variants = declare("components").variants
    assert variants["DenseNet121 concatenation"]["plan"]["target"] == "features.denseblock1"
    assert len(variants) == 11

"""The index of the paper names everything the paper has, experiments that exist, and results that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sgfi.experiments import Result, available, declare
from sgfi.experiments.paper_index import PARTS, Entry, entries, index_page, runs, setup

DOCS = Path(__file__).parents[2] / "docs"
OURS = "Ours"
TABLES = """tensor_rules regime_comparison cross_architecture mechanism deployment vit_patch_query_support
vit_patch_intervention supp_headline_setups supp_architecture_metrics supp_component_zoo supp_source_path_faithfulness
supp_operator_family supp_information_flow supp_resources supp_decision_gate language_references
gpt2_full_coordinate_query"""
FIGURES = """method_paradigm feature_inversion_scale channel_coordinate_queries generality mechanism
inverse_determinants decision_atlas language_main supp_reuse_baseline vit_patch_query_atlas
vit_patch_decision_atlas supp_arch_distribution supp_mechanism_theory supp_controls_locality
supp_calibration_deployment supp_decision_extensions language_supp_layers language_supp_references
language_supp_controls language_supp_decision language_supp_full_coordinate
language_supp_nonresidual"""


def test_every_table_and_figure_of_the_paper_is_there_once_a_part() -> None:
    listed = [(entry.label, entry.part, entry.what) for entry in entries()]
    assert len(set(listed)) == len(listed) and all(label[:4] in {f"{p}:" for p in PARTS} for label, _, _ in listed)
    labels = {label for label, _, _ in listed}
    assert {label[4:] for label in labels if label.startswith("tab:")} == set(TABLES.split())
    assert {label[4:] for label in labels if label.startswith("fig:")} == set(FIGURES.split())


def test_every_experiment_named_exists_and_every_one_of_the_paper_s_is_named() -> None:
    named = {name for entry in entries() for name in entry.experiments}
    assert named <= set(available())
    papers = {name for name in available() if not declare(name).section.startswith(OURS)}
    assert named == papers


@pytest.mark.parametrize("entry", [e for e in entries() if e.also], ids=lambda e: f"{e.label} {e.part}")
def test_results_of_other_commands_are_where_the_index_says(entry: Entry) -> None:
    assert all((DOCS / more["path"]).exists() and more["says"] for more in entry.also)


def test_options_of_the_commands_are_options() -> None:
    words = {word for entry in entries() for run in entry.run for word in run.split() if word.startswith("--")}
    assert words <= {"--model", "--fit", "--data", "--held-out"}


def test_the_page_says_what_was_run_and_on_what(
    ran: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, folder = ran("topology"), tmp_path / "topology"
    assert setup(result, "local") == "build 8x8 (12 / 5)"
    assert setup(ran("storage"), "ResNet18") == "build 8x8 (the plan alone)"
    about = {"local": {**result.variants["local"], "model": {**result.variants["local"]["model"], "weights": "none"}}}
    assert setup(replace(result, variants=about), "local") == "build 8x8 (random weights, 12 / 5)"
    (entry,) = [e for e in entries() if e.label == "tab:mechanism" and e.part == "a"]
    own, others = runs(replace(entry, like=("tiny",)), {folder: result})
    assert list(own) == [folder] and not others
    own, others = runs(replace(entry, stand_in=("tiny",)), {folder: result})
    assert list(others) == [folder] and not own
    assert runs(entry, {folder: result}) == ({}, {})  # another network, and none that stands in
    listed = [
        replace(entry, like=("tiny",)),
        replace(entry, part="b", missing="weights"),
        replace(entry, part="c", like=("tiny",), run=("ridge",), missing="more weights"),
        Entry("tab:x", "a rule"),
    ]
    monkeypatch.setattr("sgfi.experiments.paper_index.entries", lambda: listed)
    text = index_page({folder: result}, tmp_path, "sgfi experiment index .")
    assert "| run: [build 8x8 (12 / 5)](topology/result.md); not to be had: weights of its last stage |" in text
    assert "| cannot be run here (toy models only); not to be had: weights |" in text and "| no measurement |" in text
    assert "| not run; not to be had: more weights |" in text  # the network is at hand, as the other result shows
    assert "Of 4 rows, 1 were run" in text and "1 were not run, 1 cannot be run here" in text
    random = {**result.variants["local"], "model": {**result.variants["local"]["model"], "weights": "none"}}
    assert "not run;" not in index_page({folder: replace(result, variants={"local": random})}, tmp_path, "index")

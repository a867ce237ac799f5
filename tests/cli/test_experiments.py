"""``sgfi experiment`` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
PLAN = 'plan={"target": "three", "boundaries": ["one", "add"]}'


@pytest.fixture(scope="module")
def folder(root: Path, model: str, sgfi_command: Command) -> Path:
    """One finished run; the broken picture of the folder is skipped."""
    outcome = sgfi_command("experiment", "run", "topology", *words(root, model, "first"), "--evaluate", 3)
    assert outcome.code == 0, outcome.all
    return root / "first"


def words(root: Path, model: str, out: str) -> list[object]:
    setup = root / "setup.json"
    setup.write_text(json.dumps({"data": {"batch": 3}, "resamples": 50}))
    return [
        *("--model", model, "--data", root / "photos", "--fit", 5, "--with", setup, "--set", PLAN),
        *("--out", root / out, "--work", root / "work", "--quiet"),
    ]


def test_list_and_show(sgfi_command: Command) -> None:
    listed = sgfi_command("experiment", "list").out
    assert "topology" in listed and "Operator families" in listed and "base" not in listed.split()
    shown = json.loads(sgfi_command("experiment", "show", "ridge", "--set", "calibration.children=online").out)
    assert shown["calibration"]["children"] == "online" and shown["data"]["evaluation_seed"] == 456
    assert shown["variants"]["0.03"]["calibration"]["ridge"] == 0.03


def test_run_writes_numbers_table_and_figure(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert result["experiment"]["name"] == "topology" and "alignment" in result["tables"]
    assert "Local composition" in (folder / "result.md").read_text()
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert result["experiment"]["data"]["calibration"] == "photos"  # where somebody keeps things stays theirs


def test_run_again_keeps_finished_work(folder: Path, root: Path, model: str, sgfi_command: Command) -> None:
    again = sgfi_command("experiment", "run", "topology", *words(root, model, "first")[:-1], "--evaluate", 3)
    assert again.code == 0 and "kept from before" in again.err


def test_compare_and_page(folder: Path, root: Path, sgfi_command: Command) -> None:
    assert "paired" in sgfi_command("experiment", "compare", folder, folder).out
    page = root / "page.md"
    (root / "head.md").write_text("What these are.\n")
    outcome = sgfi_command("experiment", "page", root, "--out", page, "--preface", root / "head.md")
    text = page.read_text()
    assert outcome.code == 0 and "first/result.md" in text and text.index("What these are.") < text.index("### ")
    assert sgfi_command("experiment", "page", root, "--out", page).code == 6  # exists
    assert sgfi_command("experiment", "page", root / "photos", "--out", page, "--force").code == 3


def test_data_of_one_s_own_replace_the_file_s_evaluation_too(root: Path, sgfi_command: Command) -> None:
    (root / "sets.json").write_text('{"data": {"calibration": "a", "evaluation": "b"}}')
    shown = sgfi_command("experiment", "show", "topology", "--with", root / "sets.json", "--data", "c").out
    assert json.loads(shown)["data"]["calibration"] == "c" and json.loads(shown)["data"]["evaluation"] is None


def test_index_and_commits(folder: Path, root: Path, sgfi_command: Command) -> None:
    page = root / "index.md"
    assert sgfi_command("experiment", "index", root, "--out", page).code == 0
    assert "`tab:mechanism`" in page.read_text() and sgfi_command("experiment", "index", root, "--out", page).code == 6
    outcome = sgfi_command("experiment", "commits", folder)  # outside a repository nothing is known
    assert outcome.code == 0 and "0 files changed" in outcome.out


def test_several_run_in_turn(root: Path, model: str, sgfi_command: Command) -> None:
    (root / "mine.json").write_text(json.dumps({"title": "Mine", "measures": {"zero": {}}}))
    options = words(root, model, "several")
    outcome = sgfi_command("experiment", "run", "topology", root / "mine.json", *options, "--evaluate", 3)
    assert outcome.code == 0, outcome.all
    for name in ("topology", "mine"):
        result = json.loads((root / "several" / name / "result.json").read_text())
        assert result["experiment"]["name"] == name and result["experiment"]["data"]["calibration_count"] == 5
        assert f"several/{name}" in outcome.out
    assert not (root / "several" / "result.json").exists()
    unknown = sgfi_command("experiment", "run", "topology", "topologie", *words(root, model, "none"))
    assert unknown.code == 3 and not (root / "none").exists()  # before anything ran
    variant = sgfi_command(
        "experiment", "run", "topology", root / "mine.json", *words(root, model, "none"), "--variant", "local"
    )
    assert variant.code == 3 and "variants of mine" in variant.err and not (root / "none").exists()
    twice = sgfi_command("experiment", "run", "topology", "topology", *words(root, model, "none"))
    assert twice.code == 3 and "different names" in twice.err


def test_wrong_use(folder: Path, root: Path, model: str, sgfi_command: Command) -> None:
    assert sgfi_command("experiment", "run", "topologie").code == 3
    assert sgfi_command("experiment", "show", "topology", "--set", "ridge").code == 3
    assert sgfi_command("experiment", "show", "topology", "--set", "calibration.rigde=1").code == 3
    other = sgfi_command("experiment", "run", "ridge", *words(root, model, "first"))
    assert other.code == 6 and "same experiment" in other.all
    taken = sgfi_command("experiment", "run", "ridge", *words(root, model, "photos"))
    assert taken.code == 6

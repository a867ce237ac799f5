"""``sgfi decide`` and ``sgfi coordinates`` on good and bad invocations."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from sgfi.cli.decisions import UNRECORDED, typed_command
from sgfi.decisions.readout import decide
from sgfi.experiments.provenance import code_digest
from sgfi.inputs.data import read_image
from tests.cli.conftest import open_maps

BUILDER = """
import torch

INPUT_SHAPE = (3, 8, 8)


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(3, 12, 3, padding=1)
        self.two = torch.nn.Conv2d(12, 8, 2, stride=2)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.two(self.one(x).relu()).relu().mean((2, 3)))


def build():
    return Tiny()
"""


@pytest.fixture(scope="module")
def here(root: Path, sgfi_command: Callable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``maps`` of a classifier, and ``photos`` shared with the other commands' tests."""
    folder = tmp_path_factory.mktemp("decide")
    (folder / "classifier.py").write_text(BUILDER)
    (folder / "photos").mkdir()
    for file in sorted((root / "photos").glob("*.png")):
        shutil.copy(file, folder / "photos")
    outcome = sgfi_command(
        "calibrate", f"{folder / 'classifier.py'}:build", "--data", folder / "photos", "--out", folder / "maps",
        "--target", "two", "--boundaries", "one", "-q",
    )  # fmt: skip
    assert outcome.code == 0, outcome.all
    return folder


def run(sgfi_command, here: Path, command: str, out: str, *words: object):
    maps = [here / "maps", here / "photos", "--model", f"{here / 'classifier.py'}:build"]
    return sgfi_command(command, *maps, "--out", here / out, "--count", 3, "-q", *words)


QUICK = {"repeats": 3, "curve_repeats": 1, "resamples": 200, "sizes": [1, 4]}


def test_decide_collects_means_and_writes_everything(sgfi_command, here: Path) -> None:
    (here / "decide.json").write_text(json.dumps(QUICK))
    words = ["--experiment", here / "decide.json", "--depth", "one", "--depth", "two", "--sizes", "1,2"]
    assert run(sgfi_command, here, "decide", "none", *words).code == 6  # no means yet
    outcome = run(sgfi_command, here, "decide", "done", *words, "--calibration", here / "photos")
    assert outcome.code == 0, outcome.all
    assert (here / "maps" / "means.safetensors").is_file()
    results = json.loads((here / "done" / "results.json").read_text())
    settings = results["study"]["settings"]
    assert settings["sizes"] == [1, 2] and settings["repeats"] == 3 and settings["depths"] == ["one", "two"]
    assert len(results["study"]["images"]) == 3 and len(results["gate"]["lines"]) == 4
    with Image.open(here / "done" / "atlas.png") as picture:
        assert picture.width > 500
    assert "mean > 0" in outcome.out and "positive − random" in (here / "done" / "gate.md").read_text()
    assert run(sgfi_command, here, "decide", "done", *words).code == 6  # not over what is there
    again = run(sgfi_command, here, "decide", "done", *words, "--force", "--show", here / "photos" / "0.png")
    assert again.code == 0, again.all
    assert sgfi_command("decide", here / "maps").code == 2  # maps without data
    assert sgfi_command("decide", here / "maps", ".").code != 2  # the folder one is in is data


def test_a_stored_study_is_summarised_again(sgfi_command, here: Path, tmp_path: Path) -> None:
    (here / "decide.json").write_text(json.dumps(QUICK))
    words = ["--experiment", here / "decide.json", "--depth", "one", "--calibration", here / "photos"]
    outcome = run(sgfi_command, here, "decide", "stored", *words)
    assert outcome.code == 0, outcome.all
    fresh = json.loads((here / "stored" / "results.json").read_text())
    former = {**fresh, "command": "sgfi decide of old", "deletion": {}, "gate": {}}  # as earlier releases wrote it
    del former["provenance"]
    (tmp_path / "results.json").write_text(json.dumps(former))
    outcome = sgfi_command("decide", "--from", tmp_path)
    assert outcome.code == 0 and "mean > 0" in outcome.out, outcome.all
    again = json.loads((tmp_path / "results.json").read_text())
    assert again["study"] == fresh["study"] and again["gate"]["counts"] == fresh["gate"]["counts"]
    for own, line in zip(again["gate"]["lines"], fresh["gate"]["lines"], strict=True):
        assert own["normalised"] == pytest.approx(line["normalised"], rel=1e-3)
    assert again["deletion"]["one"]["random"]["left"][0]["high"] == 1
    assert again["provenance"] == {"command": "sgfi decide of old", "note": UNRECORDED}
    assert again["summarised"]["code"] == code_digest() and "commit" in again["summarised"]
    said = (tmp_path / "gate.md").read_text()
    assert f"`sgfi decide of old` ({UNRECORDED})" in said and f"digest of the code {code_digest()}" in said
    assert {file.name for file in tmp_path.iterdir()} == {"results.json", "gate.md", "effects.png"}
    (tmp_path / "results.json").write_text(json.dumps({**again, "summarised": {"command": "earlier"}}))
    assert sgfi_command("decide", "--from", tmp_path).code == 0  # and again
    third = json.loads((tmp_path / "results.json").read_text())
    assert third["provenance"] == again["provenance"] and third["summarised"]["code"] == code_digest()
    (tmp_path / "results.json").write_text("{}")
    assert sgfi_command("decide", "--from", tmp_path).code == 3
    assert sgfi_command("decide", "--from", tmp_path / "nowhere").code == 3


@pytest.mark.parametrize(("command", "table"), [("decide", "gate.md"), ("coordinates", "tables.md")])
def test_results_name_the_code_and_the_machine(sgfi_command, here: Path, command: str, table: str) -> None:
    (here / "one.json").write_text(json.dumps(QUICK if command == "decide" else {"resamples": 200}))
    words = ["--depth", "one", "--experiment", here / "one.json", "--calibration", here / "photos"]
    outcome = run(sgfi_command, here, command, f"{command}-named", *words)
    assert outcome.code == 0, outcome.all
    written = json.loads((here / f"{command}-named" / "results.json").read_text())["provenance"]
    assert written["code"] == code_digest() and {"commit", "dirty", "machine", "packages"} <= set(written)
    assert written["machine"]["cores"] and written["command"].startswith("sgfi")
    assert f"digest of the code {code_digest()}" in (here / f"{command}-named" / table).read_text()


def test_coordinates_writes_everything(sgfi_command, here: Path) -> None:
    outcome = run(sgfi_command, here, "coordinates", "cells", "--depth", "one", "--depth", "two")
    assert outcome.code == 0, outcome.all
    study = json.loads((here / "cells" / "results.json").read_text())["study"]
    assert [depth["grid"] for depth in study["depths"]] == [[8, 8], [4, 4]]
    assert study["inversions"] == study["interventions"] == 3 * (64 + 16)
    assert {file.name for file in (here / "cells").iterdir()} == {
        "results.json", "tables.md", "queries.png", "support.png", "cells.png",
    }  # fmt: skip
    assert "self mass" in outcome.out and "Spearman" in outcome.out


def test_only_correct_images(sgfi_command, here: Path) -> None:
    opened = open_maps(here / "maps")
    prepared = opened.loaded.preprocessing
    assert prepared is not None
    files = sorted((here / "photos").glob("*.png"))
    tops = decide(opened.family.plan.graph, torch.cat([read_image(file, prepared) for file in files])).top.tolist()
    right = []
    for index, (file, top) in enumerate(zip(files, tops, strict=True)):
        label = top if index % 2 == 0 else (top + 1) % 4  # every other one under a class the model does not predict
        (here / "labelled" / f"{label:04d}").mkdir(parents=True, exist_ok=True)
        shutil.copy(file, here / "labelled" / f"{label:04d}" / file.name)
        right += [file.stem] if index % 2 == 0 else []
    words = ["coordinates", here / "maps", here / "labelled", "--correct", "--depth", "two", "-q"]
    words += ["--model", f"{here / 'classifier.py'}:build"]
    outcome = sgfi_command(*words, "--count", len(right), "--out", here / "right")
    assert outcome.code == 0, outcome.all
    study = json.loads((here / "right" / "results.json").read_text())["study"]
    assert sorted(study["images"]) == right
    too_many = sgfi_command(*words, "--count", len(right) + 1, "--out", here / "more")
    assert too_many.code == 3 and "correctly classified" in too_many.err and not (here / "more").exists()
    unnamed = run(sgfi_command, here, "coordinates", "unnamed", "--correct")
    assert unnamed.code == 3 and "class number" in unnamed.err


@pytest.mark.parametrize(
    ("command", "words", "code", "hint"),
    [
        ("decide", ["--sizes", "4,x"], 3, "commas"),
        ("decide", ["--sizes", "4,1"], 5, "rising"),
        ("decide", ["--experiment", "nowhere.json"], 3, "JSON"),
        ("coordinates", ["--depth", "nowhere"], 4, "name of a tensor"),
        ("coordinates", ["--protocol", "median"], 5, "protocol"),
        ("coordinates", ["--depth", "head"], 4, "boundaries"),
    ],
)
def test_bad_use(sgfi_command, here: Path, command: str, words: list[str], code: int, hint: str) -> None:
    outcome = run(sgfi_command, here, command, "bad", *words)
    assert outcome.code == code and hint in outcome.err and not (here / "bad").exists()


@pytest.mark.parametrize("command", ["decide", "coordinates"])
def test_help_has_an_example_and_settings_are_checked(sgfi_command, here: Path, command: str) -> None:
    outcome = sgfi_command(command, "--help")
    assert outcome.code == 0 and f"sgfi {command}" in outcome.out
    (here / "wrong.json").write_text('{"deepths": []}')
    wrong = run(sgfi_command, here, command, "wrong", "--experiment", here / "wrong.json")
    assert wrong.code == 3 and "depths" in wrong.err


def test_a_model_in_place_of_maps(sgfi_command, here: Path) -> None:
    model, photos = f"{here / 'classifier.py'}:build", here / "photos"
    (here / "quick.json").write_text(json.dumps(QUICK))
    words = [photos, "--count", 2, "-q", "--depth", "one"]
    decide_words = ["decide", model, *words, "--experiment", here / "quick.json", "--out", here / "natural"]
    outcome = sgfi_command(*decide_words)
    assert outcome.code == 3 and "--calibration DATA" in outcome.err, outcome.all
    outcome = sgfi_command(*decide_words, "--calibration", photos)
    assert outcome.code == 0 and (here / "natural" / "atlas.png").exists(), outcome.all
    outcome = sgfi_command("coordinates", model, *words, "--out", here / "natural-cells")
    assert outcome.code == 0 and (here / "natural-cells" / "queries.png").exists(), outcome.all


def test_a_typed_command_is_recorded_so_that_a_shell_reads_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGFI_ASSETS", "/weights of mine")
    words = ["--variant", "paper, stem opened", "--query", "a@2,3;4,5", "it's", "", "--with=/weights of mine/a b.json"]
    monkeypatch.setattr("sys.argv", ["sgfi", "run", *words, "/weights of mine", "/elsewhere/x y"])
    assert typed_command().endswith(" --with=$SGFI_ASSETS/'a b.json' $SGFI_ASSETS 'x y'")
    assert shlex.split(typed_command())[:8] == ["sgfi", "run", *words[:6]]

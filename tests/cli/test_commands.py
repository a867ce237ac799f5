"""Every command on a good and on a bad invocation."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import sgfi
from sgfi.inputs.data import read_image
from sgfi.storage.manifest import read_manifest, sealed
from tests.cli.conftest import open_maps

COMMANDS = [
    "look",
    "graph",
    "plan",
    "calibrate",
    "invert",
    "atlas",
    "contexts",
    "evaluate",
    "demo",
    "report",
    "maps info",
    "maps verify",
    "maps shrink",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(sgfi_command, command: str) -> None:
    outcome = sgfi_command(*command.split(), "--help")
    assert outcome.code == 0 and "Example" in outcome.out and f"sgfi {command}" in outcome.out


@pytest.mark.parametrize("command", ["invert", "atlas", "evaluate"])
def test_help_shows_the_whole_query_syntax(sgfi_command, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    assert "<node>[:<channels>][@<coords>], for example" in sgfi_command(command, "--help").out


def test_version(sgfi_command) -> None:
    outcome = sgfi_command("--version")
    assert outcome.code == 0 and outcome.out == f"sgfi {sgfi.__version__}\n"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["graph"], ["invert", "--nonsense"], ["atlas", "a", "b", "--kind", "c"]]
)
def test_wrong_use_is_code_two(sgfi_command, words: list[str]) -> None:
    assert sgfi_command(*words).code == 2


# graph


def test_graph_lists_tensors(sgfi_command, model: str) -> None:
    outcome = sgfi_command("graph", model)
    assert outcome.code == 0
    assert all(f"{name} " in outcome.out for name in ("input", "one", "add", "three"))
    assert "Bx4x4x4" in outcome.out


def test_graph_can_be_narrowed_and_read_by_programs(sgfi_command, model: str) -> None:
    nodes = json.loads(sgfi_command("graph", model, "--match", "three", "--json").out)
    assert [node["name"] for node in nodes] == ["three"] and nodes[0]["shape"] == [None, 4, 4, 4]
    lines = sgfi_command("graph", model, "--match", "three").out.splitlines()
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("spec", "hint"),
    [("torchvision:resnet19", "resnet18"), ("nowhere.py:build", "nothing at"), ("resnet18", "torchvision:")],
)
def test_graph_of_an_unknown_model(sgfi_command, spec: str, hint: str) -> None:
    outcome = sgfi_command("graph", spec)
    assert outcome.code == 3 and hint in outcome.err and outcome.out == ""


# plan


def test_plan_shows_and_draws_the_dag(sgfi_command, model: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    outcome = sgfi_command("plan", model, "--target", "add", "--boundaries", "one", "--draw", file)
    assert outcome.code == 0 and "one" in outcome.out and file.read_text().startswith("<svg")
    assert sgfi_command("plan", model, "--draw", tmp_path / "plan.svg").code == 6  # in the way


def test_plan_drawn_into_another_format(sgfi_command, model: str, tmp_path: Path) -> None:
    outcome = sgfi_command("plan", model, "--draw", tmp_path / "plan.png")
    assert outcome.code == 3 and ".svg" in outcome.err
    assert not (tmp_path / "plan.png").exists()


def test_plan_with_an_unknown_target(sgfi_command, model: str) -> None:
    outcome = sgfi_command("plan", model, "--target", "thre")
    assert outcome.code == 4 and "'three'" in outcome.err and "sgfi graph" in outcome.err
    outcome = sgfi_command("plan", model, "--target", "zzzzzzzz")
    assert outcome.code == 4 and "sgfi graph" in outcome.err and "print(" not in outcome.err


# calibrate

POOLS = """
import torch
from torch import nn

INPUT_SHAPE = (3, 16, 16)


def build():
    torch.manual_seed(0)
    first = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU())
    return nn.Sequential(*first, nn.MaxPool2d(2), nn.Conv2d(6, 3, 1))
"""
"""The generic recipe puts boundaries at both pools; the first convolution is inside the first segment."""


def test_calibrate_counts_the_broken_image(fitted, root: Path) -> None:
    maps, outcome = fitted
    assert "skipped broken.jpg (" in outcome.err and outcome.err.count("broken.jpg") == 1
    assert "1 unreadable" in outcome.err
    assert outcome.out.strip() == str(maps)
    manifest = json.loads((maps / "manifest.json").read_text())
    assert manifest["calibration"]["samples"] == 8
    assert manifest["provenance"]["data"]["skipped"] == ["broken.jpg"]
    assert manifest["provenance"]["model"]["preprocessing"]["mean"] == [0.5] * 3
    assert not maps.with_name("tiny.partial").exists()


def test_quiet_says_nothing_of_skipped_images(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    words = ["--out", tmp_path / "a.npy", "--limit", 20]
    assert on_maps("invert", maps, root / "photos", *words, "-q").err == ""
    assert "broken.jpg" in on_maps("invert", maps, root / "photos", *words, "--force").err


def test_calibrate_is_the_engine_on_the_same_batches(maps: Path, model: str, root: Path) -> None:
    opened = open_maps(maps)
    files = sorted((root / "photos").glob("*.png"))
    x = torch.cat([read_image(file, opened.loaded.preprocessing) for file in files])
    again = sgfi.calibrate(opened.family.plan, [x], progress=False)
    stored, refitted = (sgfi.invert(family, x).value for family in (opened.family, again))
    assert torch.allclose(stored, refitted, atol=1e-4)


def test_calibrate_on_mirrored_pictures_too(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    words = ("--data", root / "photos", "--out", tmp_path / "m", "--target", "three", "--boundaries", "one,add")
    assert sgfi_command("calibrate", model, *words, "--mirror").code == 0
    opened = open_maps(tmp_path / "m")
    assert opened.family.samples == 16 and opened.family.provenance["data"]["mirrored"]


def test_calibrate_does_not_write_over_maps(sgfi_command, maps: Path, model: str, root: Path) -> None:
    before = (maps / "manifest.json").stat().st_mtime_ns
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", maps)
    assert outcome.code == 6 and "--force" in outcome.err
    assert (maps / "manifest.json").stat().st_mtime_ns == before


def test_calibrate_forced_replaces_maps(sgfi_command, model: str, root: Path, maps: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(maps, tmp_path / "copy")
    words = ["--target", "add", "--boundaries", "one", "--limit", 4, "--quiet", "--force"]
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", copy, *words)
    assert outcome.code == 0
    assert json.loads((copy / "manifest.json").read_text())["plan"]["target"] == "add"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.fixture
def no_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fitted before the output folder was checked")

    monkeypatch.setattr(sgfi, "calibrate", refuse)


def test_calibrate_forced_spares_what_is_not_maps(sgfi_command, model, root, tmp_path, no_fitting) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    words = ["--data", root / "photos", "--out", tmp_path / "thesis", "--force"]
    outcome = sgfi_command("calibrate", model, *words)
    assert outcome.code == 6 and "something else" in outcome.err
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "mine"


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_calibrate_into_a_file_is_refused(sgfi_command, model, root, tmp_path, no_fitting, force) -> None:
    (tmp_path / "notes").write_text("mine")
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "notes", *force)
    assert outcome.code == 6 and "is a file" in outcome.err
    assert (tmp_path / "notes").read_text() == "mine"


def test_calibrate_spares_a_folder_that_appears_meanwhile(sgfi_command, model, root, tmp_path, monkeypatch) -> None:
    out, fit = tmp_path / "maps", sgfi.calibrate

    def meanwhile(*args: object, **options: object) -> object:
        out.mkdir()
        (out / "chapter.txt").write_text("mine")
        return fit(*args, **options)

    monkeypatch.setattr(sgfi, "calibrate", meanwhile)
    words = ["--target", "add", "--boundaries", "one", "--limit", 4, "--quiet", "--force"]
    assert sgfi_command("calibrate", model, "--data", root / "photos", "--out", out, *words).code == 6
    assert (out / "chapter.txt").read_text() == "mine"
    assert (tmp_path / "maps.partial" / "manifest.json").exists()


def test_calibrate_forced_takes_an_empty_folder(sgfi_command, model, root, tmp_path) -> None:
    (tmp_path / "maps").mkdir()
    words = ["--target", "add", "--boundaries", "one", "--limit", 4, "--quiet", "--force"]
    assert sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words).code == 0
    assert (tmp_path / "maps" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--data", "nowhere"], 3),
        (["--data", "photos", "--weights", "nowhere.safetensors"], 3),
        (["--data", "photos", "--target", "thre"], 4),
        (["--data", "photos", "--boundaries", "one,tow", "--target", "three"], 4),
        (["--data", "photos/broken.jpg"], 3),
        (["--data", "one.png", "--target", "three", "--boundaries", "one"], 7),  # one sample is too few
        (["--data", "photos", "--children", "imagined"], 2),
        (["--data", "photos", "--ridge", "small"], 2),
        (["--data", "photos", "--stages", "1.5"], 2),
        (["--data", "photos", "--ridge", "-1", "--target", "three", "--boundaries", "one"], 7),
        (["--data", "photos", "--ridge", "auto", "--children", "true"], 7),
        (["--data", "photos", "--stages", "auto", "--children", "true"], 7),
    ],
)
def test_calibrate_on_bad_input(sgfi_command, model, root, tmp_path, monkeypatch, words, code) -> None:
    monkeypatch.chdir(root)
    outcome = sgfi_command("calibrate", model, "--out", tmp_path / "maps", *words)
    assert outcome.code == code, outcome.all
    assert not (tmp_path / "maps").exists()


def test_calibrate_cross_fitted_with_everything_chosen_by_the_data(sgfi_command, model, root, tmp_path) -> None:
    out = tmp_path / "maps"
    words = [
        "--children",
        "cross-fitted",
        "--ridge",
        "auto",
        "--stages",
        "auto",
        "--target",
        "add",
        "--boundaries",
        "one",
    ]
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", out, "--quiet", *words)
    assert outcome.code == 0, outcome.all
    fit = json.loads((out / "manifest.json").read_text())["calibration"]
    assert fit["children"] == "cross-fitted" and fit["ridge"] == "auto"
    assert fit["settings"]["preset"] == "paper" and fit["settings"]["stages"] == "auto"
    assert "cross-fitted children" in sgfi_command("maps", "info", out).out


def test_calibrate_on_tangents(sgfi_command, model, root, tmp_path) -> None:
    out, words = tmp_path / "maps", ("--on", "tangents2", "--batch-size", "4", "--limit", "4", "--quiet")
    assert sgfi_command("calibrate", model, "--data", root / "photos", "--out", out, *words).code == 0
    family = open_maps(out).family
    assert family.samples == 8 and family.mean is not None and len(family.mean) == 3
    assert "8 tangents" in sgfi_command("maps", "info", out).out
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "more", "--on", "slopes")
    assert outcome.code == 7 and "tangents<k>" in outcome.err


def test_calibrate_takes_the_former_name_of_cross_fitted_children(sgfi_command, model, root, tmp_path) -> None:
    words = ["--children", "honest", "--target", "add", "--boundaries", "one"]
    with pytest.warns(DeprecationWarning, match="cross-fitted"):
        outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words)
    assert outcome.code == 0 and "is now called cross-fitted" in outcome.err, outcome.all
    fit = json.loads((tmp_path / "maps" / "manifest.json").read_text())["calibration"]
    assert fit["children"] == fit["settings"]["children"] == "cross-fitted"


@pytest.mark.parametrize(
    ("words", "opened", "tied"),
    [
        ([], True, True),
        (["--boundaries", "stage"], False, True),
        (["--partition", "singleton"], True, False),
        (["--boundaries", "stage", "--partition", "singleton"], False, False),
        (["--operator", "diagonal"], False, False),
    ],
    ids=str,
)
def test_calibrate_with_a_preset(sgfi_command, root, tmp_path, monkeypatch, words, opened, tied) -> None:
    """Options override the preset one by one. The plan is looked at, not fitted."""
    (tmp_path / "pools.py").write_text(POOLS)
    plans = []

    def look(plan: sgfi.Plan, *_: object, **options: object) -> None:
        plans.append((plan, options["preset"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(sgfi, "calibrate", look)
    model = [f"{tmp_path / 'pools.py'}:build", "--weights", "none", "--data", root / "photos"]
    outcome = sgfi_command("calibrate", *model, "--out", tmp_path / "maps", "--preset", "aligned", *words)
    assert outcome.code == 130, outcome.all
    ((plan, preset),) = plans
    assert ("0" in plan.fitted) == opened
    assert (plan.boundary["input"].partition.kind == "custom") == tied
    assert preset.refine(plan) is plan


def test_calibrate_with_lengths_chosen_sizes_and_no_more_samples_than_help(sgfi_command, model, tmp_path) -> None:
    inputs = tmp_path / "inputs.npy"
    np.save(inputs, np.random.default_rng(0).normal(size=(80, 3, 8, 8)).astype("float32"))
    words = ["--data", inputs, "--out", tmp_path / "maps", "--length", "--maps", "chosen:1GiB", "--until", "0.9"]
    words += ["--target", "three", "--boundaries", "one,add"]
    outcome = sgfi_command("calibrate", model, *words)
    assert outcome.code == 0, outcome.all
    assert "MiB of maps" in outcome.err and "stopped: the step to" in outcome.err
    assert " x " in sgfi_command("maps", "info", tmp_path / "maps").out
    quality = sgfi_command("maps", "info", tmp_path / "maps", "--quality").out
    assert "held out of this curve" in quality and "#" in quality and "Stopped" in quality
    words = [
        "--data",
        inputs,
        "--out",
        tmp_path / "other",
        "--maps",
        "chosen:100B",
        "--target",
        "three",
        "--boundaries",
        "one",
    ]
    outcome = sgfi_command("calibrate", model, *words)
    assert outcome.code == 4 and "a size of at least" in outcome.err


def test_calibrate_with_an_unknown_preset(sgfi_command, model, root, tmp_path) -> None:
    words = ["--data", root / "photos", "--out", tmp_path / "maps", "--preset", "alinged"]
    outcome = sgfi_command("calibrate", model, *words)
    assert outcome.code == 7 and "['paper', 'aligned']" in outcome.err and "'aligned'?" in outcome.err


def test_ctrl_c_leaves_a_state_that_is_taken_up_again(sgfi_command, model, root, tmp_path, monkeypatch) -> None:
    from sgfi.storage import Checkpoint

    kept: list[str] = []
    keep = Checkpoint.keep

    def once(self: Checkpoint, name: str, *rest: object) -> object:
        if kept:
            raise KeyboardInterrupt
        kept.append(name)
        return keep(self, name, *rest)

    words = ["calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", "--quiet"]
    words += ["--target", "three", "--boundaries", "one,add"]
    monkeypatch.setattr(Checkpoint, "keep", once)
    outcome = sgfi_command(*words)
    assert outcome.code == 130 and "same command" in outcome.err and not (tmp_path / "maps").exists()
    later: list[str] = []

    def note(self: Checkpoint, name: str, *rest: object) -> object:
        later.append(name)
        return keep(self, name, *rest)

    monkeypatch.setattr(Checkpoint, "keep", note)
    assert sgfi_command(*words).code == 0
    assert kept == ["add"] and sorted(later) == ["input", "one"]
    assert (tmp_path / "maps" / "manifest.json").exists()


def test_a_full_disk_leaves_nothing_half_written(sgfi_command, model, root, tmp_path, monkeypatch) -> None:
    from sgfi.storage import files

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "save_file", full)
    words = ["--target", "three", "--boundaries", "one", "--quiet"]
    outcome = sgfi_command("calibrate", model, "--data", root / "photos", "--out", tmp_path / "maps", *words)
    assert outcome.code == 6 and "No space left" in outcome.err
    assert not (tmp_path / "maps").exists()


# invert


def test_invert_draws_a_picture(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    outcome = on_maps("invert", maps, root / "one.png", "--out", tmp_path / "a.png")
    assert outcome.code == 0 and outcome.out.strip() == str(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size[0] > 300


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_invert_writes_the_engines_numbers(on_maps, maps: Path, root: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"found{suffix}"
    outcome = on_maps("invert", maps, root / "one.png", "--query", "add:1-2@3,4;5,5", "--stage", "first", "--out", out)
    assert outcome.code == 0, outcome.all
    inverse = torch.from_numpy(np.load(out)) if suffix == ".npy" else load_file(out)["inverse"]
    opened = open_maps(maps)
    x = read_image(root / "one.png", opened.loaded.preprocessing)
    expected = sgfi.invert(opened.family, x, "add", [1, 2], [(3, 4), (5, 5)], stage="first").value
    assert torch.allclose(inverse, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--query", "ad:1"], 4, "'add'"),
        (["--query", "add:99"], 5, "99"),
        (["--query", "add:x"], 5, "<node>"),
        (["--query", "add@1"], 5, "(1,)"),
        (["--stage", "last"], 5, "raw"),
        (["--out", "picture.bmp"], 3, ".png"),
        (["--model", "OTHER"], 6, "fingerprint"),
    ],
)
def test_invert_on_bad_input(on_maps, maps, root, tmp_path, words, code, said) -> None:
    if "--out" not in words:
        words = [*words, "--out", tmp_path / "a.png"]
    if "OTHER" in words:
        other = tmp_path / "other.py"
        source = (root / "tiny.py").read_text()
        other.write_text(source.replace("Conv2d(6, 4, 2, stride=2)", "Conv2d(6, 4, 2, stride=2, bias=False)"))
        words = [f"{other}:build" if word == "OTHER" else word for word in words]
    outcome = on_maps("invert", maps, root / "one.png", *words)
    assert outcome.code == code and said in outcome.err, outcome.all
    assert not (tmp_path / "a.png").exists()


def test_invert_a_missing_or_broken_image(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    for name in ("nothing.png", "photos/broken.jpg"):
        assert on_maps("invert", maps, root / name, "--out", tmp_path / "a.png").code == 3


def test_invert_does_not_write_over_files(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    out.write_text("mine")
    assert on_maps("invert", maps, root / "one.png", "--out", out).code == 6
    assert out.read_text() == "mine"
    assert on_maps("invert", maps, root / "one.png", "--out", out, "--force").code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("damage", ["absent", "empty", "text", "missing file", "cut file", "altered file"])
def test_unreadable_map_folders(sgfi_command, model: str, maps: Path, root: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "maps"
    if damage == "empty":
        folder.mkdir()
    elif damage != "absent":
        shutil.copytree(maps, folder)
        file = sorted(folder.glob("*.safetensors"))[0]
        if damage == "text":
            (folder / "manifest.json").write_text("{")
        elif damage == "missing file":
            file.unlink()
        elif damage == "cut file":
            file.write_bytes(file.read_bytes()[:-9])
        else:
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)
    words = [
        ("invert", folder, root / "one.png", "--out", tmp_path / "a.png", "--model", model),
        ("maps", "verify", folder),
    ]
    for line in words:
        assert sgfi_command(*line).code == 6
    assert not (tmp_path / "a.png").exists()


# atlas


@pytest.mark.parametrize(
    "kind", ["depth", "stages", "channels", "groups", "coords", "images", "swap", "interpolation", "families"]
)
def test_atlas_of_every_kind(on_maps, maps: Path, root: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"{kind}.png"
    outcome = on_maps("atlas", maps, root / "photos", "--kind", kind, "--out", out, "--limit", 2, "--count", 3)
    assert outcome.code == 0, outcome.all
    assert out.read_bytes().startswith(b"\x89PNG")


def test_atlas_of_chosen_channels_and_cells(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    for kind, query in (("channels", "add:0-2"), ("coords", "add:1@0,0;7,7")):
        words = ["--kind", kind, "--query", query, "--out", tmp_path / f"{kind}.svg"]
        assert on_maps("atlas", maps, root / "one.png", *words).code == 0


def test_atlas_of_several_families_has_a_column_for_each(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    words = ["--kind", "families", "--limit", 1, "--out"]
    assert on_maps("atlas", maps, root / "one.png", *words, tmp_path / "one.svg").code == 0
    assert on_maps("atlas", maps, root / "one.png", *words, tmp_path / "two.svg", "--beside", maps).code == 0
    pictures = [(tmp_path / name).read_text().count("<image") for name in ("one.svg", "two.svg")]
    assert pictures == [2, 3]


def test_strips_of_pairs_need_two_images(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    for kind in ("swap", "interpolation"):
        outcome = on_maps("atlas", maps, root / "one.png", "--kind", kind, "--out", tmp_path / "a.png")
        assert outcome.code == 5 and "two inputs" in outcome.err, outcome.all


def test_atlas_with_an_unknown_target_or_file(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    assert on_maps("atlas", maps, root / "one.png", "--kind", "channels", "--query", "ad", "--out", out).code == 4
    assert on_maps("atlas", maps, root / "nothing.png", "--out", out).code == 3
    assert on_maps("atlas", maps, root / "one.png", "--out", tmp_path / "a.npy").code == 3
    assert not out.exists()


def test_a_full_disk_while_drawing(on_maps, maps: Path, root: Path, tmp_path: Path, monkeypatch) -> None:
    from matplotlib.figure import Figure

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Figure, "savefig", full)
    outcome = on_maps("atlas", maps, root / "one.png", "--out", tmp_path / "a.png")
    assert outcome.code == 8 and "disk is full" in outcome.err


# evaluate


def test_evaluate_writes_and_shows_the_numbers(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    outcome = on_maps("evaluate", maps, root / "photos", "--depths", 2, "--out", out)
    assert outcome.code == 0 and "fitted on" in outcome.err  # these are the calibration images
    record = json.loads(out.read_text())
    queries = [result["query"] for result in record["results"]]
    assert queries == ["one"] * 3 + ["three"] * 3
    final = record["results"][-1]
    opened = open_maps(maps)
    files = sorted((root / "photos").glob("*.png"))
    x = torch.cat([read_image(file, opened.loaded.preprocessing) for file in files])
    value = sgfi.invert(opened.family, x).value
    expected = torch.cosine_similarity(value.flatten(1), x.flatten(1)).double()
    cosine = final["metrics"]["pixel_cosine"]
    assert cosine["values"] == pytest.approx(expected.tolist(), abs=1e-5)
    assert cosine["interval95"][0] <= cosine["mean"] <= cosine["interval95"][1]
    assert f"{cosine['mean']:.3f}" in outcome.out


def test_evaluate_on_bad_input(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    assert on_maps("evaluate", maps, root / "nothing", "--out", out).code == 3
    assert on_maps("evaluate", maps, root / "photos", "--query", "add:77", "--out", out).code == 5
    assert not out.exists()
    out.write_text("mine")
    assert on_maps("evaluate", maps, root / "photos", "--out", out).code == 6
    assert out.read_text() == "mine"


# maps


def test_maps_info_reads_the_manifest_only(sgfi_command, maps: Path, tmp_path: Path) -> None:
    folder = tmp_path / "only-manifest"
    folder.mkdir()
    shutil.copy(maps / "manifest.json", folder)
    outcome = sgfi_command("maps", "info", folder)
    assert outcome.code == 0
    assert all(word in outcome.out for word in ("tiny.py:build", "three", "8 samples", "1 skipped", "true children"))
    assert json.loads(sgfi_command("maps", "info", folder, "--json").out)["plan"]["target"] == "three"
    assert sgfi_command("maps", "info", tmp_path / "nothing").code == 6


def test_maps_info_does_not_call_a_files_weights_pretrained(sgfi_command, maps: Path) -> None:
    printed = sgfi_command("maps", "info", maps).out
    assert "pretrained" not in printed and "as built by the file" in printed


def test_maps_of_a_file_from_another_folder(sgfi_command, maps: Path, model: str, root, tmp_path, monkeypatch) -> None:
    moved = shutil.copytree(maps, tmp_path / "moved")
    manifest = json.loads((moved / "manifest.json").read_text())
    manifest["provenance"]["model"]["spec"] = "tiny.py:build"  # as made inside the model's own folder
    (moved / "manifest.json").write_text(json.dumps(sealed(manifest)))
    monkeypatch.chdir(tmp_path)
    words = ["invert", "moved", root / "one.png", "--out", "a.npy"]
    outcome = sgfi_command(*words)
    assert outcome.code == 3 and "name it with --model path/to/net.py:build" in outcome.err
    for line in (words, ["maps", "verify", "moved", "--model-too"], ["maps", "shrink", "moved", "--out", "small"]):
        outcome = sgfi_command(*line, "--model", model)
        assert outcome.code == 0, outcome.all


def test_maps_verify_accepts_what_was_written(on_maps, maps: Path) -> None:
    assert on_maps("maps", "verify", maps, "--model-too").code == 0


def test_maps_shrink_keeps_the_numbers(on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    outcome = on_maps("maps", "shrink", maps, "--stages", 1, "--target", "add", "--out", small)
    assert outcome.code == 0, outcome.all
    whole, part = open_maps(maps), open_maps(small)
    x = read_image(root / "one.png", whole.loaded.preprocessing)
    expected = sgfi.invert(whole.family, x, "add", stage="first").value
    assert torch.equal(expected, sgfi.invert(part.family, x).value)
    size = [sum(f.stat().st_size for f in folder.glob("*.safetensors")) for folder in (maps, small)]
    assert size[1] < size[0]


def test_maps_shrink_to_fewer_bits(sgfi_command, on_maps, maps: Path, root: Path, tmp_path: Path) -> None:
    outcome = on_maps("maps", "shrink", maps, "--precision", "half", "--out", tmp_path / "small")
    assert outcome.code == 0, outcome.all
    assert sgfi_command("maps", "verify", tmp_path / "small").code == 0
    assert "half precision" in sgfi_command("maps", "info", tmp_path / "small").out
    whole, small = open_maps(maps), open_maps(tmp_path / "small")
    assert small.family.bytes < whole.family.bytes / 2
    x = read_image(root / "one.png", whole.loaded.preprocessing)
    exact, rounded = (sgfi.invert(opened.family, x).value for opened in (whole, small))
    assert float((exact - rounded).norm() / exact.norm()) < 0.01
    assert on_maps("maps", "shrink", tmp_path / "small", "--precision", "int8", "--out", tmp_path / "b").code == 6
    assert on_maps("maps", "shrink", maps, "--precision", "int4", "--out", tmp_path / "b").code == 2


def test_calibrate_in_fewer_bits(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps"
    words = ["calibrate", model, "--data", root / "photos", "--out", out, "--target", "three", "--boundaries", "one"]
    outcome = sgfi_command(*words, "--precision", "int8", "--quiet")
    assert outcome.code == 0, outcome.all
    assert [p.name for p in tmp_path.iterdir()] == ["maps"]
    assert read_manifest(out)["precision"] == "int8"


def test_a_family_too_large_for_memory_is_streamed(maps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_maps(maps).family.maps, dict)
    monkeypatch.setattr("sgfi.cli.loading.available", lambda: 1000)
    assert not isinstance(open_maps(maps).family.maps, dict)


@pytest.mark.parametrize(("words", "code"), [(["--stages", 3], 5), (["--target", "ad"], 4), (["--target", "two"], 4)])
def test_maps_shrink_on_bad_input(on_maps, maps: Path, tmp_path: Path, words: list, code: int) -> None:
    assert on_maps("maps", "shrink", maps, "--out", tmp_path / "small", *words).code == code
    assert not (tmp_path / "small").exists()


def test_bootstrap_interval_is_for_more_than_a_handful() -> None:
    from sgfi.evaluation.tables import summary

    assert "interval95" not in summary([0.5, 0.6])
    low, high = summary([0.5, 0.6, 0.7, 0.8, 0.9])["interval95"]
    assert 0.5 <= low < 0.7 < high <= 0.9

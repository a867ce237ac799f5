"""``sgfi look``, models in place of maps, and files that a manifest must not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import sgfi
from sgfi.inputs.data import read_image
from sgfi.inputs.models import load_model
from sgfi.storage.manifest import sealed
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures


def test_look_draws_and_says_what_the_controls_say(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    words = ["--query", "add:1", "--query", "three@1,2", "--other", root / "photos" / "0.png", "--out", out]
    outcome = sgfi_command("look", model, root / "one.png", *words)
    assert outcome.code == 0, outcome.all
    first, second, written = outcome.out.splitlines()
    assert first.startswith("add:1: ") and second.startswith("three@1,2: ") and written == str(out)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert sgfi_command("look", model, root / "one.png", *words).code == 6
    assert sgfi_command("look", model, root / "one.png", *words, "--force", "--no-share").code == 0


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_look_writes_the_engines_numbers(sgfi_command, model: str, root: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"values{suffix}"
    words = ["--query", "add:1-2@3,4", "--jacobian", "point", "--ridge", 0.5, "--out", out]
    outcome = sgfi_command("look", model, root / "one.png", *words)
    assert outcome.code == 0, outcome.all
    loaded = load_model(model)
    x = read_image(root / "one.png", loaded.preprocessing)
    expected = sgfi.look(loaded, x, "add:1-2@3,4", jacobian="point", ridge=0.5)
    if suffix == ".npy":
        assert torch.allclose(torch.from_numpy(np.load(out)), expected.value, atol=1e-6)
    else:
        tensors = load_file(out)
        assert torch.allclose(tensors["inverse"], expected.value, atol=1e-6)
        assert torch.allclose(tensors["share"], expected.share, atol=1e-6)


def test_look_without_a_query_goes_from_shallow_to_deep(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "depths.safetensors"
    outcome = sgfi_command("look", model, root / "one.png", "--out", out, "--no-share", "--points", 2)
    assert outcome.code == 0, outcome.all
    tensors = load_file(out)
    assert (
        set(tensors) == {"inverse", "ridge", "residual"}
        and len(tensors["inverse"]) == len(outcome.out.splitlines()) - 1
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["one.png", "--query", "ad:1"], 4, "'add'"),
        (["one.png", "--query", "add:99"], 5, "99"),
        (["nothing.png"], 3, "nothing.png"),
        (["photos", "--out", "a.png"], 3, "a folder for the results"),
        (["three.npy"], 3, "one input"),
        (["one.png", "--ridge", "-1"], 5, "positive ridge"),
        (["one.png", "--jacobian", "line"], 2, "line"),
        (["one.png", "--out", "a.bmp"], 3, ".png"),
    ],
)
def test_look_on_bad_input(sgfi_command, model, root, tmp_path, monkeypatch, words, code, said) -> None:
    monkeypatch.chdir(root)
    np.save("three.npy", np.zeros((3, 3, 8, 8), np.float32))
    words = words if "--out" in words else [*words, "--out", tmp_path / "a.png"]
    outcome = sgfi_command("look", model, *words)
    assert outcome.code == code and said in outcome.err, outcome.all
    assert not (tmp_path / "a.png").exists()


def test_look_at_a_folder_goes_on_where_it_stopped(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "looks"
    words = ["look", model, root / "photos", "--query", "add:1", "--jacobian", "point", "--out", out]
    outcome = sgfi_command(*words, "--limit", 3, "--form", "safetensors")
    assert outcome.code == 0 and outcome.out == f"{out}\n", outcome.all
    assert "3 inputs" in outcome.err and "%" in outcome.err  # the progress bar
    assert len(list(out.glob("*.safetensors"))) == 3
    whole = sgfi_command(*words, "--form", "safetensors", "--quiet")
    assert whole.code == 0 and whole.err == "" and len((out / "looks.jsonl").read_text().splitlines()) == 8
    again = sgfi_command(*words, "--form", "safetensors")
    assert "8 of them from an earlier run" in again.err and "1 skipped: broken.jpg" in again.err
    assert "warning: skipped broken.jpg" in again.err
    other = sgfi_command(*words, "--form", "safetensors", "--ridge", 0.5)
    assert other.code == 6 and "settings.json" in other.err
    forced = sgfi_command(*words, "--form", "safetensors", "--ridge", 0.5, "--force", "--limit", 1)
    assert forced.code == 0 and "1 inputs" in forced.err and "0 of them from" in forced.err


def test_compare_draws_inputs_queries_and_methods(sgfi_command, model: str, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.png"
    words = ["compare", model, root / "one.png", root / "photos" / "0.png", "--query", "add:1", "--query", "three"]
    outcome = sgfi_command(*words, "--out", out)
    assert outcome.code == 0 and out.read_bytes().startswith(b"\x89PNG"), outcome.all
    assert "add:1: raw VJP against natural, path, cosine " in outcome.out and outcome.out.endswith(f"{out}\n")
    assert sgfi_command(*words, "--out", out).code == 6
    missing = sgfi_command(*words, "--method", "magic", "--out", tmp_path / "b.png")
    assert missing.code == 5 and "magic" in missing.err


def test_look_at_a_text(sgfi_command, folder: Path, tmp_path: Path) -> None:
    text, out = " ".join(WORDS[:5]), tmp_path / "text.safetensors"
    outcome = sgfi_command("look", f"hf:{folder}", text, "--query", "@2", "--out", out)
    assert outcome.code == 0, outcome.all
    assert load_file(out)["inverse"].shape == (1, 5, 16) and not load_file(out)["inverse"][:, 3:].any()
    drawn = tmp_path / "text.png"
    outcome = sgfi_command("look", f"hf:{folder}", text, "--query", "@2", "--out", drawn)
    assert outcome.code == 0 and drawn.read_bytes().startswith(b"\x89PNG"), outcome.all


def test_tokens_of_a_model_without_maps(sgfi_command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "strip.png"
    outcome = sgfi_command("tokens", f"hf:{folder}", " ".join(WORDS[:10]), "--size", 6, "--out", out, "--position", 3)
    assert outcome.code == 0 and "the first 4 of 10" in outcome.err, outcome.all
    (query,) = json.loads(out.with_suffix(".json").read_text())["queries"]
    assert query["future_mass"] == 0 and abs(sum(query["profile"]) - 1) < 1e-6


# models in place of maps


@pytest.mark.parametrize(
    "words",
    [
        ["invert", "--query", "add:1", "--out", "a.npy"],
        ["atlas", "--kind", "depth", "--count", "2", "--out", "a.png"],
        ["evaluate", "--query", "add:1", "--limit", "2", "--out", "a.json"],
    ],
    ids=lambda words: words[0],
)
def test_a_model_in_place_of_maps(sgfi_command, model: str, root: Path, tmp_path, monkeypatch, words) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = sgfi_command(words[0], model, root / "one.png", *words[1:], "-q")
    assert outcome.code == 0, outcome.all
    if words[0] == "invert":
        x = read_image(root / "one.png", load_model(model).preprocessing)
        assert np.allclose(np.load("a.npy"), sgfi.look(load_model(model), x, "add:1").value.numpy(), atol=1e-6)
    if words[0] == "evaluate":
        assert json.loads(Path("a.json").read_text())["estimator"]["estimator"] == "natural inverse"


def test_model_size_and_maps_exclude_each_other(sgfi_command, on_maps, model, maps, root, tmp_path) -> None:
    words = [root / "one.png", "--out", tmp_path / "a.npy"]
    assert "--model goes with" in sgfi_command("invert", model, *words, "--model", model).err
    assert "size they were fitted for" in on_maps("invert", maps, *words, "--size", 16).err
    assert sgfi_command("invert", model, *words, "--size", 16, "--query", "add:1").code == 0
    assert np.load(tmp_path / "a.npy").shape == (1, 3, 16, 16)
    outcome = sgfi_command("invert", "torchvison:resnet18", *words, "--force")
    assert outcome.code == 3 and "torchvision" in outcome.err


@pytest.mark.parametrize("words", [["info"], ["verify"], ["shrink", "--out", "small"]], ids=lambda words: words[0])
def test_commands_that_need_maps_say_so(sgfi_command, model: str, words: list[str]) -> None:
    outcome = sgfi_command("maps", words[0], model, *words[1:])
    assert outcome.code == 6 and "has no maps" in outcome.err and "sgfi calibrate" in outcome.err


# a manifest does not choose what is run


@pytest.mark.parametrize(
    "words",
    [
        ["invert", "MAPS", "one.png", "--out", "OUT.npy"],
        ["atlas", "MAPS", "one.png", "--out", "OUT.png"],
        ["evaluate", "MAPS", "photos", "--out", "OUT.json"],
        ["maps", "verify", "MAPS", "--model-too"],
        ["maps", "shrink", "MAPS", "--out", "OUT"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_file_that_only_the_manifest_names_does_not_run(sgfi_command, maps, model, root, tmp_path, words) -> None:
    copy, trace = shutil.copytree(maps, tmp_path / "maps"), tmp_path / "ran"
    evil = tmp_path / "evil.py"
    evil.write_text((root / "tiny.py").read_text() + f"\nopen({str(trace)!r}, 'w').close()\n")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["provenance"]["model"]["spec"] = f"{evil}:build"
    (copy / "manifest.json").write_text(json.dumps(sealed(manifest)))
    names = {"MAPS": copy, "one.png": root / "one.png", "photos": root / "photos"}
    line = [names.get(word, str(tmp_path / word) if word.startswith("OUT") else word) for word in words]
    outcome = sgfi_command(*line)
    assert outcome.code == 3 and f"--model {evil}:build" in outcome.err, outcome.all
    assert not trace.exists()
    outcome = sgfi_command(*line, "--model", model)  # another file, which the user named
    assert outcome.code == 0 and not trace.exists(), outcome.all


SIGNALS = """
import torch

INPUT_SHAPE = (2, 16)


def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv1d(2, 5, 3), torch.nn.Tanh(), torch.nn.Conv1d(5, 3, 3))
"""


def test_look_under_a_prior_of_inputs(sgfi_command, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SIGNALS)
    inputs = torch.randn(40, 2, 16, generator=torch.Generator().manual_seed(1))
    np.save(tmp_path / "many.npy", inputs.numpy())
    np.save(tmp_path / "one.npy", inputs[:1].numpy())
    model, words = f"{tmp_path / 'net.py'}:build", ["--query", "2:1", "--prior", tmp_path / "many.npy"]
    outcome = sgfi_command("look", model, tmp_path / "one.npy", *words, "--out", tmp_path / "a.safetensors")
    assert outcome.code == 0, outcome.all
    prior = sgfi.prior([inputs], kind="grid", channel_axis=1)
    expected = sgfi.look(load_model(model).model, inputs[:1], "2:1", prior)
    assert torch.allclose(load_file(tmp_path / "a.safetensors")["inverse"], expected.value, atol=1e-6)
    outcome = sgfi_command("look", model, tmp_path / "one.npy", *words, "--out", tmp_path / "a.png")
    assert outcome.code == 0 and (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG"), outcome.all
    missing = sgfi_command("look", model, tmp_path / "one.npy", "--prior", "nowhere.npy", "--out", tmp_path / "b.png")
    assert missing.code and "nowhere.npy" in missing.err and not (tmp_path / "b.png").exists()

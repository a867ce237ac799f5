"""``sgfi tokens`` on a tiny GPT-2 in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sgfi.cli.app import app
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures
RUN = CliRunner()


@pytest.fixture(scope="module")
def maps(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("maps") / "gpt2"
    settings = ["--size", "8", "--limit", "24", "--operator", "causal", "--partition", "first-apart", "--quiet"]
    done = RUN.invoke(
        app, ["calibrate", f"hf:{folder}", "--data", str(folder / "text.txt"), "--out", str(out), *settings]
    )
    assert done.exit_code == 0, done.output
    return out


def test_a_strip_and_its_numbers(maps: Path, tmp_path: Path) -> None:
    out = tmp_path / "strip.png"
    text = " ".join(WORDS[:10])  # two tokens more than the maps are for
    done = RUN.invoke(app, ["tokens", str(maps), text, "--out", str(out), "--position", "3", "--cue", "mat"])
    assert done.exit_code == 0, done.output
    assert "the first 2 of 10" in done.output and out.stat().st_size > 5000
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["tokens"] == WORDS[2:10]
    (query,) = record["queries"]
    assert query["position"] == 3 and query["future_mass"] == 0 and abs(sum(query["profile"]) - 1) < 1e-6
    assert len(query["nearest_words"]) == 8
    again = RUN.invoke(app, ["tokens", str(maps), text, "--out", str(out)])
    assert again.exit_code == 6


def test_every_position_of_a_shorter_text(maps: Path, tmp_path: Path) -> None:
    done = RUN.invoke(app, ["tokens", str(maps), "the cat sat on a mat", "--every", "--out", str(tmp_path / "a.png")])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "a.json").read_text())
    assert [query["future_mass"] for query in record["queries"]] == [0.0] * 6


@pytest.mark.parametrize(
    ("arguments", "code"), [(["cat"], 3), (["the cat sat", "--position", "5"], 5), (["the cat", "--stage", "last"], 5)]
)
def test_wrong_requests(maps: Path, tmp_path: Path, arguments: list[str], code: int) -> None:
    done = RUN.invoke(app, ["tokens", str(maps), *arguments, "--out", str(tmp_path / "a.png")])
    assert done.exit_code == code and not (tmp_path / "a.png").exists()


def test_all_controlled_contexts(folder: Path, tmp_path: Path) -> None:
    out, text = tmp_path / "contexts.png", str(folder / "text.txt")
    settings = ["--size", "16", "--limit", "8", "--operator", "causal", "--quiet", "--out", str(tmp_path / "maps")]
    assert RUN.invoke(app, ["calibrate", f"hf:{folder}", "--data", text, *settings]).exit_code == 0
    done = RUN.invoke(app, ["contexts", str(tmp_path / "maps"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "152 contexts" in done.output and out.stat().st_size > 5000
    record = json.loads(out.with_suffix(".json").read_text())
    assert (len(record["two meanings"]), len(record["agreement"])) == (72, 80)
    assert all(abs(sum(context["profile"]) - 1) < 1e-3 for context in record["agreement"])


def test_contexts_do_not_fit_into_short_maps(maps: Path, tmp_path: Path) -> None:
    done = RUN.invoke(app, ["contexts", str(maps), "--out", str(tmp_path / "a.png")])
    assert done.exit_code == 3 and not (tmp_path / "a.png").exists()

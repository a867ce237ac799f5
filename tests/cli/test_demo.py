"""The demonstration in small: the same code on a tiny model and a few crops."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sgfi import demo
from sgfi.errors import StoreError
from sgfi.report.checks import cosines


@pytest.fixture(scope="module")
def settings(model: str) -> demo.DemoSettings:
    return demo.DemoSettings(model=model, size=8, crops=16, depths=2, target="three", boundaries=("one", "add"))


@pytest.fixture(scope="module")
def ran(settings: demo.DemoSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    report = demo.run(out, settings, progress=False)
    assert report == out / "report.html"
    return out


def test_report_shows_the_numbers_of_the_results_file(ran: Path) -> None:
    record = json.loads((ran / "report.json").read_text())
    page = (ran / "report.html").read_text()
    for query, stages in cosines(record["results"]).items():
        assert f"<code>{query}</code>" in page
        assert all(f"{value:.3f}" in page for value in stages.values())
    assert record["reused_maps"] is False and record["fitted_nodes"] == 3
    assert record["peak_memory_GiB"] > 0
    assert set(record["left_out"]) == {"decision"}  # the tiny model puts out a map, no logits


def test_report_has_every_figure_twice_and_nothing_from_outside(ran: Path) -> None:
    page = (ran / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 * (4 + 6)  # of the natural inverse, of the maps
    assert page.count("<svg") == 1
    assert not re.search(r'(src|href|srcset)="(?!data:|#)', page)
    assert "sgfi calibrate torchvision:resnet18" in page and "CC BY 2.0" in page
    assert "still being written" not in page


def test_results_hold_the_controls_of_both_estimators(ran: Path) -> None:
    record = json.loads((ran / "report.json").read_text())
    page = (ran / "report.html").read_text()
    by_estimator = {name: [c for c in record["controls"] if c["estimator"] == name] for name in ("natural", "maps")}
    assert [c["query"] for c in by_estimator["natural"]] == [c["query"] for c in by_estimator["maps"]]
    for control in record["controls"]:
        assert len(control["random"]["values"]) == len(control["swapped"]["values"]) == 3
        assert control["sentence"].split(" (")[0] in page
    assert [(r["estimator"], r["asked"]) for r in record["removal"]] == [
        (name, asked) for name in ("natural", "maps") for asked in ("channels", "cells")
    ]
    assert all(0 <= r["best_at_own"] <= 1 and 0 < r["chance"] <= 1 for r in record["removal"])


def test_the_first_picture_is_on_the_page_before_calibration(
    tmp_path: Path, settings: demo.DemoSettings, monkeypatch, capsys
) -> None:
    import sgfi

    def calibrate(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sgfi, "calibrate", calibrate)
    with pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path / "out", settings, progress=True)
    page = tmp_path / "out" / "report.html"
    assert "data:image/png" in page.read_text() and "still being written" in page.read_text()
    assert f"first picture: {page.resolve().as_uri()}" in capsys.readouterr().err


def test_running_again_reuses_the_maps(ran: Path, settings: demo.DemoSettings) -> None:
    manifest = ran / settings.folder / "manifest.json"
    before, numbers = manifest.stat().st_mtime_ns, json.loads((ran / "report.json").read_text())["results"]
    demo.run(ran, settings, progress=False)
    again = json.loads((ran / "report.json").read_text())
    assert manifest.stat().st_mtime_ns == before and again["reused_maps"] is True
    assert again["results"] == numbers
    assert any("reused" in line for line in demo.summary(ran))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, settings: demo.DemoSettings) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match="--force"):
        demo.run(tmp_path, settings, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_command_runs_it_with_its_defaults(sgfi_command, tmp_path: Path, monkeypatch) -> None:
    asked: list[tuple[Path, demo.DemoSettings]] = []

    def run(out: Path, settings: demo.DemoSettings, **_: object) -> Path:
        asked.append((out, settings))
        return out / "report.html"

    monkeypatch.setattr(demo, "run", run)
    monkeypatch.setattr(demo, "summary", lambda _: ["pixel cosine 0.5"])
    outcome = sgfi_command("demo", "--out", tmp_path / "d")
    assert outcome.code == 0 and outcome.out.strip().endswith("report.html")
    assert asked == [(tmp_path / "d", demo.DemoSettings())]
    (tmp_path / "busy").mkdir()
    monkeypatch.undo()
    (tmp_path / "busy" / "file").write_text("mine")
    assert sgfi_command("demo", "--out", tmp_path / "busy").code == 6

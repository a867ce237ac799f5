"""The campaign program counts, writes and fails as it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robustness import run
from robustness.campaign import Effort, Row, Tally


def planted(effort: Effort) -> list[Row]:
    tally = Tally("planted", effort.seed_of("planted"))
    for index in range(effort.count(10)):
        tally.tried()
        tally.measure(index, f"{index} bytes")
    tally.fail("hang", "the third")
    return [tally.row()]


def result_of(name: str, effort: Effort) -> dict:
    return {"command": name, "seconds": 1, "rows": [row.as_dict() for row in planted(effort)]}


def test_a_failure_is_counted_written_and_ends_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "in_process", result_of)
    assert run.main(["kills", "--share", "0.5", "--seed", "7", "--out", str(tmp_path)]) == 1
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["faults"]["hang"] == 1 and sum(result["faults"].values()) == 1
    row = result["campaigns"]["kills"]["rows"][0]
    assert (row["tried"], row["failed"], row["worst"]) == (5, 1, "4 bytes") and row["failures"] == ["hang: the third"]
    assert f"| planted | 5 | 1 | 4 bytes | {row['seed']} |" in (tmp_path / "result.md").read_text()
    run.main(["flips", "--out", str(tmp_path)])  # what ran earlier stays
    result = json.loads((tmp_path / "result.json").read_text())
    assert set(result["campaigns"]) == {"kills", "flips"} and result["faults"]["hang"] == 2


def test_the_page_shows_the_result() -> None:
    """What the docs say is what a run wrote."""
    table = (run.RESULTS / "result.md").read_text(encoding="utf-8").strip()
    page = run.PAGE.read_text(encoding="utf-8")
    assert page.partition(run.MARKS[0])[2].partition(run.MARKS[1])[0].strip() == table


def test_an_unknown_campaign_or_fault_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run.main(["nothing", "--out", str(tmp_path)])
    with pytest.raises(ValueError, match="a fault among"):
        Tally("row", 0).fail("fire", "everywhere")

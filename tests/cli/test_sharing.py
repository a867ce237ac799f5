"""``sgfi maps push`` into a folder and ``sgfi maps pull`` from it."""

from __future__ import annotations

from pathlib import Path

from sgfi.storage import read_manifest

LICENCES = ["--model-licence", "mit", "--data-licence", "unknown"]


def test_pushed_into_a_folder_and_pulled(on_maps, sgfi_command, maps: Path, root: Path, tmp_path: Path) -> None:
    site = tmp_path / "site" / "tiny"
    outcome = on_maps("maps", "push", maps, site, *LICENCES, "--held-out", root / "photos", "--limit", 3, "--quiet")
    assert outcome.code == 0 and outcome.out == f"{site}\n", outcome.all
    fitted = on_maps("maps", "push", maps, tmp_path / "x", *LICENCES, "--held-out", root / "photos", "--limit", 9)
    assert fitted.code == 3 and "flatter" in fitted.err
    card = (site / "README.md").read_text()
    assert "Means over 3 inputs" in card and "| licence of the model | mit |" in card
    outcome = sgfi_command("maps", "pull", site, "--out", tmp_path / "whole")
    assert outcome.code == 0 and "3 fitted nodes" in outcome.err, outcome.all
    assert read_manifest(tmp_path / "whole") == read_manifest(site)
    outcome = sgfi_command("maps", "pull", site, "--target", "add", "--out", tmp_path / "part")
    assert outcome.code == 0 and read_manifest(tmp_path / "part")["plan"]["target"] == "add", outcome.all
    assert sorted(read_manifest(tmp_path / "part")["files"]) == ["input", "one"]
    assert on_maps("invert", tmp_path / "part", root / "one.png", "--out", tmp_path / "a.npy").code == 0
    for words, code, said in (
        (["pull", tmp_path / "nowhere", "--out", tmp_path / "x"], 6, "where a family is"),
        (["pull", "http://127.0.0.1:9/maps", "--out", tmp_path / "x"], 6, "an answer from"),
        (["pull", site, "--out", tmp_path / "whole"], 6, "does not exist yet"),
        (["pull", site, "--target", "none", "--out", tmp_path / "x"], 6, "Choose among"),
    ):
        outcome = sgfi_command("maps", *words)
        assert outcome.code == code and said in outcome.err, outcome.all
    assert not (tmp_path / "x").exists()

"""Recorded paths do not name the folders of a machine."""

from __future__ import annotations

import pytest

from sgfi.settings import portable


def test_paths_by_the_folder_s_name_or_their_last_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGFI_ASSETS", "/data/assets/")
    assert portable("/data/assets/images/val") == "$SGFI_ASSETS/images/val"
    assert portable("--data=/data/assets/images") == "--data=$SGFI_ASSETS/images"
    assert portable("/data/assets") == "$SGFI_ASSETS"
    assert portable("/data/assets2/images") == "images"  # another folder whose name begins alike
    assert portable("/home/me/nets.py:build") == "nets.py:build"
    assert portable("docs/setups/lite0.json") == "docs/setups/lite0.json"
    assert portable("a=/b") == "a=/b" and portable("--quiet") == "--quiet"
    monkeypatch.delenv("SGFI_ASSETS")
    assert portable("/data/assets/images") == "images"

"""Recorded paths name no folder of a machine; sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from sgfi.errors import SgfiError
from sgfi.settings import as_bytes, portable, readable


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


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("4GiB", 4 * 2**30),
        (" 1.5 mib ", 3 * 2**19),
        ("2kB", 2000),
        ("3 GB", 3 * 10**9),
        ("7B", 7),
    ],
)
def test_sizes_are_read(written: Any, size: int) -> None:
    assert as_bytes(written) == size


@pytest.mark.parametrize("wrong", [0, -1, "0", "-3GiB", "4 gigs", "GiB", "", "1e9", None, [4], True, "4GiB please"])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(SgfiError, match="4GiB"):
        as_bytes(wrong)


def test_sizes_as_people_read_them() -> None:
    written = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 * 2**20: "5.0 MiB", 2**41: "2.0 TiB"}
    assert {size: readable(size) for size in written} == written

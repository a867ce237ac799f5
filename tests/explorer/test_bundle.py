"""The committed bundle is what its source builds."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE, STATIC = ROOT / "explorer", ROOT / "src" / "sgfi" / "explorer" / "static"


def test_nothing_changed_since_the_bundle_was_built() -> None:
    spec = importlib.util.spec_from_file_location("bundle", SOURCE / "bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.differences() == []


@pytest.mark.slow
def test_the_source_builds_the_bundle() -> None:
    if shutil.which("npm") is None or not (SOURCE / "node_modules").is_dir():
        pytest.skip("needs Node and the packages of explorer/package-lock.json: cd explorer && npm install --no-save")
    made = subprocess.run([sys.executable, SOURCE / "bundle.py", "--rebuild"], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr


def test_the_bundle_names_no_other_host_and_the_lock_no_registry() -> None:
    for file in STATIC.rglob("*"):
        if file.is_file():
            hosts = set(re.findall(r"(?:https?|wss?)://([\w.-]+)", file.read_text(encoding="utf-8")))
            assert hosts <= {"www.w3.org"}, file  # a name space of SVG and MathML, never fetched
    assert '"resolved"' not in (SOURCE / "package-lock.json").read_text()

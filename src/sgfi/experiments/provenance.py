"""What a result depends on beside its settings: the code, the versions, the machine and its kernels."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import sgfi
from sgfi.calibration.memory import available

PACKAGES = ("torch", "torchvision", "timm", "transformers", "numpy", "scipy", "torchmetrics", "lpips")
LOST = "not in this history"
"""What stands for a commit that cannot be found."""
COMMIT = re.compile(r'("commit":\s*)"([0-9a-f]{40})"')
PEOPLE_FACING = ("figures", "report", "demo", "explorer", "cli")
"""Rooms that nothing measured imports (``tests/test_architecture.py``): their code changes no number."""


def provenance(command: str = "") -> dict[str, Any]:
    """Versions, machine, code and command."""
    return {
        "command": command,
        "sgfi": sgfi.__version__,
        **commit(),
        "code": code_digest(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
        "machine": hardware(),
        "kernels": kernels(),
        "threads": torch.get_num_threads(),
    }


@cache
def code_digest() -> str:
    """Of the source that can change a number: every Python file and shipped table outside the people-facing rooms.

    Declared experiments are not code: what they say is in the key of a unit, and in the result.
    """
    root, digest = Path(sgfi.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*")):
        parts = file.relative_to(root).parts
        if parts[0] in PEOPLE_FACING or (parts[0] == "experiments" and file.suffix == ".json"):
            continue
        if file.suffix in (".py", ".json", ".safetensors"):
            digest.update("/".join(parts).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:24]


def commit() -> dict[str, Any]:
    """Of the source tree this package runs from, and whether its code differs from it; nothing outside a tree."""
    here = Path(sgfi.__file__).parent
    head = _git(here, "rev-parse", "HEAD")
    return {"commit": head, "dirty": None if head is None else bool(_git(here, "status", "--porcelain", "--", "."))}


def with_known_commits(text: str, folder: Path) -> str:
    """A result file's text with every commit that is no ancestor of the folder's HEAD called ``LOST``.

    Histories are rewritten, and what ran on a branch that was squashed cannot be checked out again; the digest of the
    code still identifies it. Without a repository, or in a shallow clone, nothing is known and nothing is changed.
    """
    known = ancestors(folder)
    if known is None:
        return text
    return COMMIT.sub(lambda match: match[0] if match[2] in known else f'{match[1]}"{LOST}"', text)


def ancestors(folder: Path) -> frozenset[str] | None:
    """Every commit that the folder's HEAD leads back to; None where that is not known."""
    if _git(folder, "rev-parse", "--is-shallow-repository") != "false":
        return None
    listed = _git(folder, "rev-list", "HEAD")
    return None if listed is None else frozenset(listed.split())


def describe_code(record: Mapping[str, Any]) -> str:
    """The code of a result in a few words: its commit, whether it was changed, and the digest where there is one."""
    commit = str(record.get("commit") or "unknown")
    words = f"commit {commit if commit == LOST else commit[:12]}"
    words += ", changed since" if record.get("dirty") else ""
    return words + (f"; digest of the code {record['code']}" if record.get("code") else "")


def hardware() -> dict[str, Any]:
    """Processor and memory, by which work is cut into chunks; no name of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    return {
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": memory and round(memory / 2**30, 1),
        "free_gib": round(available() / 2**30, 1),
        "accelerators": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def kernels() -> dict[str, Any]:
    """What torch computes with here."""
    return {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkl": torch.backends.mkl.is_available(),
        "onednn": torch.backends.mkldnn.is_available(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None

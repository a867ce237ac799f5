"""Finished parts of a long measure on disk, so that an interrupted one resumes where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Scores = dict[str, float]


def digest(facts: Any, length: int = 16) -> str:
    """Of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:length]


class Ledger:
    """Named scores in a file that only grows; a last line that was cut off is left out."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{digest(facts)}.jsonl"
        self._kept: dict[str, Scores] = {}
        lines = self._file.read_text(encoding="utf-8").split("\n") if self._file.is_file() else []
        for line in lines[:-1]:
            name, scores = json.loads(line)
            self._kept[name] = scores
        if lines and lines[-1]:
            self._file.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def take(self, name: str, measure: Callable[[], Scores]) -> Scores:
        """Kept from before, or measured now and kept."""
        if name not in self._kept:
            self._kept[name] = measure()
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, self._kept[name]]) + "\n")
        return self._kept[name]

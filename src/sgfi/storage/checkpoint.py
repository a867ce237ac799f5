"""A calibration on disk while it runs: finished nodes are kept, and an interrupted one resumes from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sgfi.boundaries import Plan
from sgfi.errors import StoreError
from sgfi.inversion import MapFamily
from sgfi.spectral import WienerMap
from sgfi.storage.files import MANIFEST, UNFINISHED, node_file, read_node, sha256, write_json, write_node
from sgfi.storage.folder import describe, read_manifest

NodeMaps = tuple[tuple[WienerMap, ...], list[dict[str, float]]]
"""A node's maps and their diagnostics."""


class Checkpoint:
    """A folder that fills up with finished nodes while a calibration runs, and becomes a map folder at the end.

    Of several processes one ``writes``; the others read what it has written, each opening the folder after it.
    """

    def __init__(self, path: str | Path, signature: str, plan: Plan, *, writes: bool = True) -> None:
        self._path, self._plan, self._writes = Path(path), plan, writes
        self._note = self._path / UNFINISHED
        self._state = self._read() or {"signature": signature, "nodes": {}}
        if self._state["signature"] != signature:
            raise StoreError(
                f"a checkpoint of this very calibration in {self._path}",
                "one of another model, plan, data or setting",
                "Choose another folder, or delete this one to start from the beginning.",
            )
        if not writes:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not (self._path / MANIFEST).exists():
                write_json(self._note, self._state)
        except OSError as error:
            raise StoreError("a checkpoint folder that can be written", str(error), "Choose another folder.") from error

    def _read(self) -> dict[str, Any] | None:
        """Signature and finished nodes of an earlier run; ``None`` for a folder to start in."""
        if (self._path / MANIFEST).exists():
            manifest = read_manifest(self._path)
            fit, files = manifest["calibration"], manifest["files"]
            nodes = {name: {**entry, "diagnostics": fit["diagnostics"][name]} for name, entry in files.items()}
            return {"signature": fit.get("signature"), "nodes": nodes}
        if self._note.exists():
            return self._read_note()
        if not self._writes:
            raise StoreError(
                f"the checkpoint folder {self._path} that the first process has just made",
                "nothing there",
                "Choose a folder on a file system that every process can see.",
            )
        if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise StoreError("an empty or new checkpoint folder", str(self._path), "Choose another folder.")
        return None

    def _read_note(self) -> dict[str, Any]:
        try:
            state = json.loads(self._note.read_text())
            return {"signature": state["signature"], "nodes": dict(state["nodes"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"a readable {self._note}",
                f"{type(error).__name__}: {error}",
                "Delete this folder to start from the beginning.",
            ) from error

    def finished(self) -> dict[str, NodeMaps]:
        """The nodes that need not be fitted again. A damaged file counts as unfinished."""
        nodes: dict[str, NodeMaps] = {}
        for name, entry in self._state["nodes"].items():
            file = self._path / entry["file"]
            if file.is_file() and sha256(file) == entry["sha256"]:
                nodes[name] = (read_node(file, self._plan, name), entry["diagnostics"])
        return nodes

    def keep(self, name: str, maps: tuple[WienerMap, ...], diagnostics: list[dict[str, float]]) -> NodeMaps:
        """Write a finished node; returns it memory-mapped."""
        try:
            if self._writes:
                entry = write_node(self._path, self._plan, name, maps)
                self._state["nodes"][name] = entry | {"diagnostics": diagnostics}
                write_json(self._note, self._state)
        except OSError as error:
            raise StoreError(
                "room and permission to keep a finished node", str(error), "Free space and run again to resume."
            ) from error
        return read_node(node_file(self._path, self._plan, name), self._plan, name), diagnostics

    def close(self, family: MapFamily) -> None:
        """Turn the folder into a finished map folder."""
        if not self._writes:
            return
        nodes = self._state["nodes"]
        files = {name: {key: nodes[name][key] for key in ("file", "bytes", "sha256")} for name in family.maps}
        manifest = describe(family, files)
        manifest["calibration"]["signature"] = self._state["signature"]
        write_json(self._path / MANIFEST, manifest)
        self._note.unlink(missing_ok=True)

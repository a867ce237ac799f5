"""A calibration on disk while it runs: finished nodes are kept, and an interrupted one resumes from them."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from sgfi.boundaries import Plan
from sgfi.errors import StoreError
from sgfi.inversion import MapFamily
from sgfi.settings import read_bounded
from sgfi.spectral import WienerMap
from sgfi.storage.files import MANIFEST, UNFINISHED, check_file, node_file, read_node, write_json, write_node
from sgfi.storage.folder import describe
from sgfi.storage.manifest import FILE, LONGEST, as_folder, read_manifest, sealed
from sgfi.storage.schema import Items, Misfit, Real, Record, Table, Text
from sgfi.storage.scratch import Busy, PathLock, is_draft, remove_drafts

NodeMaps = tuple[tuple[WienerMap, ...], list[dict[str, float]]]
"""A node's maps and their diagnostics."""
NOTE = Record({"signature": Text(1024), "nodes": Table(Record({**FILE.needed, "diagnostics": Items(Table(Real()))}))})
"""What :data:`UNFINISHED` holds."""


class Checkpoint:
    """A folder that fills up with finished nodes while a calibration runs, and becomes a map folder at the end.

    Of several processes one ``writes``; the others read what it has written, each opening the folder after it.
    """

    def __init__(self, path: str | Path, signature: str, plan: Plan, *, writes: bool = True) -> None:
        self._path, self._plan, self._writes = as_folder(path), plan, writes
        self._note = self._path / UNFINISHED
        self._lock = self._own() if writes else None
        try:
            self._state = self._begin(signature)
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others into the folder."""
        if self._lock is not None:
            self._lock.release()

    def _begin(self, signature: str) -> dict[str, Any]:
        """What an earlier run left, or a new state, which is noted at once."""
        state = self._read() or {"signature": signature, "nodes": {}}
        if state["signature"] != signature:
            raise StoreError(
                f"a checkpoint of this very calibration in {self._path}",
                "one of another model, plan, data or setting",
                "Choose another folder, or delete this one to start from the beginning.",
            )
        try:
            if self._writes:
                remove_drafts(self._path)
            if self._writes and not (self._path / MANIFEST).exists():
                write_json(self._note, state)
        except OSError as error:
            raise StoreError("a checkpoint folder that can be written", str(error), "Choose another folder.") from error
        return state

    def _own(self) -> PathLock:
        """The folder, made where there is none, for this calibration alone."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            return PathLock(self._path)
        except Busy as error:
            raise StoreError(
                f"the checkpoint folder {self._path} to itself",
                "another calibration that is running there",
                "Wait for it to end, stop it, or choose another folder.",
            ) from error
        except FileExistsError as error:
            raise StoreError("an empty or new checkpoint folder", str(self._path), "Choose another folder.") from error
        except OSError as error:
            raise StoreError("a checkpoint folder that can be written", str(error), "Choose another folder.") from error

    def _read(self) -> dict[str, Any] | None:
        """Signature and finished nodes of an earlier run; ``None`` for a folder to start in."""
        if (self._path / MANIFEST).exists():
            manifest = read_manifest(self._path)
            fit, files = manifest["calibration"], manifest["files"]
            diagnostics = fit["diagnostics"]
            nodes = {name: {**entry, "diagnostics": diagnostics.get(name, [])} for name, entry in files.items()}
            return {"signature": fit.get("signature"), "nodes": nodes, "schedule": fit.get("schedule", {})}
        if self._note.exists():
            return self._read_note()
        if not self._writes:
            raise StoreError(
                f"the checkpoint folder {self._path} that the first process has just made",
                "nothing there",
                "Choose a folder on a file system that every process can see.",
            )
        if not all(map(is_draft, self._path.iterdir())):  # of a run that was killed before its first note
            raise StoreError("an empty or new checkpoint folder", str(self._path), "Choose another folder.")
        return None

    def _read_note(self) -> dict[str, Any]:
        try:
            state = json.loads(read_bounded(self._note, LONGEST))
            NOTE.check(state, UNFINISHED)
            return {"signature": state["signature"], "nodes": dict(state["nodes"])}
        except (OSError, ValueError, RecursionError, Misfit) as error:
            raise StoreError(
                f"a readable {self._note}",
                f"{type(error).__name__}: {error}",
                "Delete this folder to start from the beginning.",
            ) from error

    @property
    def schedule(self) -> dict[str, Any]:
        """How the calibration was cut that finished this folder; empty where it is not finished."""
        return self._state.get("schedule", {})

    def finished(self) -> dict[str, NodeMaps]:
        """The nodes that need not be fitted again. A damaged file counts as unfinished."""
        nodes: dict[str, NodeMaps] = {}
        for name, entry in self._state["nodes"].items():
            with contextlib.suppress(StoreError):
                file = check_file(self._path, name, entry)
                if name in self._plan.fitted:
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

    def finish(self, family: MapFamily) -> None:
        """Turn the folder into a finished map folder."""
        if not self._writes:
            return
        nodes = self._state["nodes"]
        files = {name: {key: nodes[name][key] for key in ("file", "bytes", "sha256")} for name in family.maps}
        manifest = describe(family, files)
        manifest["calibration"]["signature"] = self._state["signature"]
        write_json(self._path / MANIFEST, sealed(manifest))
        self._note.unlink(missing_ok=True)

"""A published family, or the part of it that a target needs, as a map folder in a cache.

The manifest comes first. It is checked for form and checksum, cut down to the nodes of the target, and only their
files are fetched, each up to the size and against the checksum that the manifest names. What is in the cache is a map
folder like any other: :func:`sgfi.load` checks it again, and refuses another model.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgfi
from sgfi.errors import DataError, StoreError
from sgfi.inputs.graph_cache import recorded_graph
from sgfi.inputs.models import parse_spec
from sgfi.sharing.sources import FamilySource, Unreachable, source_named
from sgfi.storage import read_manifest, record_of, verify_files
from sgfi.storage.files import MANIFEST, check_file, is_map_folder, new_folder, sha256, write_json
from sgfi.storage.manifest import LONGEST, format_of, sealed

PUBLISHED = "published.json"
"""Beside a fetched family: where it came from, and the checksum of the manifest there."""


class StaleCopy(UserWarning):
    """The source does not answer, and what was fetched earlier is used."""


def from_pretrained(
    source: str | Path,
    model: Any = None,
    *,
    target: str | None = None,
    cache: str | Path | None = None,
    offline: bool = False,
    **options: Any,
) -> sgfi.MapFamily:
    """A published family, ready to be asked: ``sgfi.from_pretrained("org/name@revision", target="layer3.1.add")``.

    ``source`` is a repository of the Hugging Face hub (extra ``hub``), the address of a folder on any file server, or a
    folder. ``model`` is a module or a captured graph; without it the model that the family's manifest names is built,
    unless that would run a Python file. With ``target`` only what that target needs is fetched. ``offline`` asks nobody
    and uses what was fetched earlier. ``options`` go to :func:`sgfi.load`.
    """
    folder = pull(source, target=target, cache=cache, offline=offline)
    return sgfi.load(folder, _named_graph(folder) if model is None else model, **options)


def pull(
    source: str | Path,
    out: str | Path | None = None,
    *,
    target: str | None = None,
    cache: str | Path | None = None,
    offline: bool = False,
) -> Path:
    """Fetch a family, or what a target needs of it, into a new folder ``out`` or into the cache; where it is then."""
    origin = source_named(str(source))
    if out is not None:
        if offline:
            raise StoreError("a source that may be asked", "offline=True", "Without out=..., the cache is looked into.")
        path = Path(out)
        if path.exists():
            raise StoreError("a path that does not exist yet", repr(str(path)), "Choose another.")
        return _fetched(origin, path, target)
    path = cache_folder(cache) / _key(origin, target)
    if not offline:
        try:
            return _fetched(origin, path, target)
        except Unreachable as error:
            if not (path / MANIFEST).is_file():
                got = f"no answer ({error})"
                raise StoreError(
                    f"the family at {source}", got, "Check the network; nothing is in the cache."
                ) from error
            warnings.warn(f"{source} does not answer ({error}); the copy in {path} is used", StaleCopy, stacklevel=2)
    if not (path / MANIFEST).is_file():
        todo = "Fetch it once with a network."
        raise StoreError(f"{source} in the cache", f"nothing in {path.parent}", todo)
    return path


def cache_folder(given: str | Path | None = None) -> Path:
    """``$XDG_CACHE_HOME/sgfi/maps``, by default below ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given is not None else base / "sgfi" / "maps"


def _key(origin: FamilySource, target: str | None) -> str:
    return hashlib.sha256(f"{origin.identity}\n{target or ''}".encode()).hexdigest()[:32]


def _fetched(origin: FamilySource, path: Path, target: str | None) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        origin.fetch(MANIFEST, LONGEST, Path(scratch) / MANIFEST)
        whole = read_manifest(scratch)
        checksum = sha256(Path(scratch) / MANIFEST)
    if _published(path).get("manifest") == checksum and _undamaged(path):
        return path
    if path.exists() and not is_map_folder(path) and not _published(path):
        raise StoreError("a folder for the family", f"{path}, which holds something else", "Choose another cache.")
    manifest = reduced(whole, target)
    with new_folder(path) as draft:
        for name, entry in manifest["files"].items():
            origin.fetch(entry["file"], entry["bytes"], draft / entry["file"])
            check_file(draft, name, entry)
        write_json(draft / PUBLISHED, {"source": origin.identity, "target": target, "manifest": checksum})
        write_json(draft / MANIFEST, sealed(manifest))
    return path


def _published(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / PUBLISHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _undamaged(path: Path) -> bool:
    try:
        verify_files(path)
    except StoreError:
        return False
    return True


def reduced(manifest: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """The manifest of what a shallower target needs; refused where a node was fitted on children beside the way."""
    plan = manifest["plan"]
    entries = {entry["name"]: entry for entry in plan["boundaries"]}
    if target is None or target == plan["target"]:
        return dict(manifest)
    if target not in entries or target == "input":
        known = ", ".join(name for name in entries if name != "input")
        raise StoreError("a boundary of the family as target", repr(target), f"Choose among {known}.")
    needed = {target, *(name for name in entries if _upstream(entries, name, target))}
    for name in needed - {target}:
        beside = set(entries[name]["children"]) - needed
        if beside:
            todo = "Fetch the whole family, or calibrate for this target."
            got = f"{name!r}, which was fitted on {sorted(beside)[0]!r} too"
            raise StoreError(f"nodes that lead to {target!r} alone", got, todo)
    kept = [
        entries[name] if name != target else {**entries[name], "children": []} for name in entries if name in needed
    ]
    fit = {key: own for key, own in manifest["calibration"].items() if key != "lengths"}
    lengths = {name: own for name, own in manifest["calibration"].get("lengths", {}).items() if name in needed}
    precision, tangents = manifest.get("precision", "full"), "mean" in fit
    return {
        **manifest,
        "format": format_of(precision, tangents=tangents, lengths=bool(lengths)),
        "plan": {**plan, "target": target, "boundaries": kept},
        "files": {name: entry for name, entry in manifest["files"].items() if name in needed - {target}},
        "calibration": {
            **fit,
            "diagnostics": {name: own for name, own in fit["diagnostics"].items() if name in needed - {target}},
            **({"lengths": lengths} if lengths else {}),
        },
    }


def _upstream(entries: Mapping[str, Mapping[str, Any]], name: str, target: str) -> bool:
    """Whether a boundary leads to the target, by the children that were recorded."""
    waiting, seen = [name], {name}
    while waiting:
        for child in entries[waiting.pop()]["children"]:
            if child == target:
                return True
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False


def _named_graph(folder: Path) -> sgfi.TensorGraph:
    """Of the model that the manifest names; never one that a Python file builds."""
    manifest = read_manifest(folder)
    record = record_of(manifest, "model")
    spec = record.get("spec")
    if not isinstance(spec, str):
        raise DataError("a family that names its model", "none", "Pass the model: from_pretrained(source, model).")
    if parse_spec(spec).scheme == "file":
        todo = "If you have and trust that file, build the model yourself and pass it."
        raise DataError("a model of a library", f"{spec}, a Python file that would be run", todo)
    return recorded_graph(record, [entry["name"] for entry in manifest["plan"]["boundaries"]])

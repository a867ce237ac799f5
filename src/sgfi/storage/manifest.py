"""The manifest of a map folder: bounded, with a checksum of its own, and checked for form before anything is built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgfi.errors import StoreError
from sgfi.settings import read_bounded
from sgfi.spectral import PRECISIONS
from sgfi.storage.files import AGAIN, MANIFEST, UNFINISHED, restore_folder
from sgfi.storage.schema import (
    Either,
    Items,
    Misfit,
    Nothing,
    Real,
    Record,
    Shape,
    Sizes,
    Table,
    Text,
    Whole,
    Word,
    check_depth,
)

FORMAT = 1
PACKED_FORMAT = 2
"""Of families that are not in full precision: older readers refuse it by number."""
TANGENT_FORMAT = 3
"""Of families fitted on tangents, in any precision: older readers would take them for maps of states."""
LENGTH_FORMAT = 4
"""Of families with lengths, in any precision: older readers would leave their states too short."""
FORMATS = (FORMAT, PACKED_FORMAT, TANGENT_FORMAT, LENGTH_FORMAT)
LONGEST = 64 << 20
"""Bytes of a manifest."""
LARGEST = 1 << 28
"""Numbers of one tensor that a manifest may have us make room for."""
CHECKSUM = "checksum"

_NAME = Text(1024)
_SHA256 = Text(64, "[0-9a-f]{64}", "a SHA-256 checksum")
FILE = Record(
    {
        "file": Text(255, r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "the plain name of a file in this folder"),
        "bytes": Whole(),
        "sha256": _SHA256,
    }
)
_PARTITION = Record({"kind": Word(("singleton", "shared", "custom")), "bins": Whole(1, LARGEST)})
_BOUNDARY = Record(
    {
        "name": _NAME,
        "shape": Sizes(LARGEST),
        "channel_axis": Either((Nothing(), Whole(0, 16))),
        "coord_axes": Items(Whole(0, 16), 16),
        "children": Items(_NAME),
        "partition": _PARTITION,
        "operator": Text(64),
    }
)
MODEL = Record(
    {
        "class": _NAME,
        "fingerprint": Text(128, "[0-9a-f]{16,}", "a fingerprint"),
        "input_shape": Sizes(LARGEST),
        "dtype": Word(("float16", "bfloat16", "float32", "float64")),
        "bound": Items(_NAME, 1000),
    }
)
FORWARD = Record({"ops": Items(Text(200)), "attention": Text(64), "probes": Table(Items(Real(), 64))})
CURVE = Record(
    {"samples": Items(Whole(1), 64), "missed": Table(Items(Real(), 64), 64), "held_out": Whole(1)},
    {"until": Real(), "reason": Text()},
    closed=True,
)
SCHEDULE = Record(
    {
        "budget": Either((Nothing(), Whole())),
        "rounds": Whole(),
        "passes": Whole(),
        "chunks": Table(Whole(1)),
        "resumed": Whole(),
    }
)
PLAN = Record({"mode": Text(64), "target": _NAME, "boundaries": Items(_BOUNDARY)})
SCHEMA: Shape = Record(
    {
        "format": Word(FORMATS),
        "model": MODEL,
        "plan": PLAN,
        "calibration": Record(
            {
                "ridge": Either((Real(), Word(("auto",)))),
                "children": Text(64),
                "stages": Whole(1, 1000),
                "samples": Whole(),
                "diagnostics": Table(Items(Table(Real(), 100), 1000)),
            },
            {
                "settings": Table(most=1000),
                "signature": Text(1024),
                "mean": Items(Real(), LARGEST),
                "lengths": Table(Table(Real())),
                "curve": CURVE,
                "schedule": SCHEDULE,
            },
        ),
        "provenance": Table(),
        "files": Table(FILE),
    },
    {
        "precision": Word(PRECISIONS),
        "fft": Text(),
        "versions": Table(Text(200), 100),
        "forward": FORWARD,
        CHECKSUM: _SHA256,
    },
    closed=True,
)


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the checksum of everything else in it."""
    rest = {key: value for key, value in manifest.items() if key != CHECKSUM}
    return {**rest, CHECKSUM: _checksum(rest)}


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a map folder, checked for form and, where it carries one, against its checksum."""
    path = as_folder(path)
    restore_folder(path)
    try:
        manifest = json.loads(read_bounded(path / MANIFEST, LONGEST))
    except (OSError, ValueError, RecursionError) as error:
        todo = "Name a folder written by sgfi.save."
        if (path / UNFINISHED).exists():
            todo = "This calibration is unfinished: run it again with the same checkpoint folder to complete it."
        got = f"{type(error).__name__}: {error}"
        raise StoreError(f"a readable {MANIFEST} in {path}", got, todo) from error
    if not isinstance(manifest, dict) or manifest.get("format") not in FORMATS:
        version = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise StoreError(
            f"map format {', '.join(map(str, FORMATS[:-1]))} or {FORMATS[-1]}",
            repr(version)[:100],
            "Use the version of sgfi that wrote it, or calibrate again.",
        )
    try:
        check_depth(manifest, MANIFEST)
        SCHEMA.check(manifest, MANIFEST)
        _check_names(manifest)
    except Misfit as error:
        raise StoreError(f"{error.expected} at {error.where} in {path}", error.got, AGAIN) from error
    if CHECKSUM in manifest and sealed(manifest)[CHECKSUM] != manifest[CHECKSUM]:
        raise StoreError(f"{path / MANIFEST} as it was written", "different contents (checksum)", AGAIN)
    return manifest


def read_sealed(file: Path, schema: Shape) -> dict[str, Any]:
    """A JSON file with a checksum of its own, of the given form."""
    try:
        content = json.loads(read_bounded(file, LONGEST))
        check_depth(content, file.name)
        schema.check(content, file.name)
    except Misfit as error:
        raise StoreError(f"{error.expected} at {error.where} in {file.parent}", error.got, AGAIN) from error
    except (OSError, ValueError, RecursionError) as error:
        got = f"{type(error).__name__}: {error}"
        raise StoreError(f"a readable {file.name} in {file.parent}", got, "Check the path.") from error
    if sealed(content)[CHECKSUM] != content.get(CHECKSUM):
        raise StoreError(f"{file} as it was written", "different contents (checksum)", AGAIN)
    return content


def record_of(manifest: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A mapping in the provenance; empty where there is none, for callers may put anything there."""
    record = manifest.get("provenance", {}).get(key)
    return dict(record) if isinstance(record, dict) else {}


def format_of(precision: str, *, tangents: bool, lengths: bool) -> int:
    """The lowest whose readers know all that a family has."""
    if lengths:
        return LENGTH_FORMAT
    return TANGENT_FORMAT if tangents else FORMAT if precision == "full" else PACKED_FORMAT


def _check_names(manifest: Mapping[str, Any]) -> None:
    """One file for each fitted node, and children that are boundaries."""
    plan = manifest["plan"]
    names = [entry["name"] for entry in plan["boundaries"]]
    if len(set(names)) < len(names) or plan["target"] not in names:
        raise Misfit("plan.boundaries", "distinct names with the target among them", plan["target"])
    for entry in plan["boundaries"]:
        for child in entry["children"]:
            if child not in names:
                raise Misfit(f"children of {entry['name']!r}", "names of boundaries", child)
    fitted = {name for name in names if name != plan["target"]}
    fit = manifest["calibration"]
    lengths = fit.get("lengths", {})
    if bool(lengths) != (manifest["format"] == LENGTH_FORMAT):
        raise Misfit("lengths", f"lengths with format {LENGTH_FORMAT}, and no other", f"format {manifest['format']}")
    for target, own in lengths.items():
        if target not in names or not set(own) <= fitted:
            raise Misfit("lengths", "targets and fitted nodes of the plan", target)
    for part, known in (("files", manifest["files"]), ("diagnostics", fit["diagnostics"])):
        odd = sorted((set(known) ^ fitted) if part == "files" else (set(known) - fitted))
        if odd:
            raise Misfit(part, "an entry for every fitted node and no other", odd[0])
    files = [entry["file"] for entry in manifest["files"].values()]
    if len(set(files)) < len(files):
        raise Misfit("files", "a file of its own for every node", "one twice")


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def as_folder(path: Any) -> Path:
    """A path; anything else is an error."""
    try:
        Path(path).exists()  # which names that no file system takes do not survive
        return Path(path)
    except TypeError as error:
        raise StoreError("the path of a map folder", type(path).__name__, "Pass text or a pathlib.Path.") from error
    except (OSError, ValueError) as error:
        raise StoreError("a path that the file system takes", str(error)[:200], "Choose another.") from error

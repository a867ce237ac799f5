"""Sets of moments on disk: a folder with ``moments.json``, a file of sums for each node and one of sample digests.

What is read may come from another machine: the description is checked for form and against its checksum, every file
against its own, and every tensor for name, shape, type and finiteness before it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sgfi.boundaries import Boundary, Plan
from sgfi.calibration.moment_sets import DIGEST, MomentSet
from sgfi.errors import StoreError
from sgfi.graph import TensorGraph
from sgfi.spectral import Moments
from sgfi.spectral.precision import wide
from sgfi.storage.files import AGAIN, PARTITION, check_file, new_folder, node_file, read_tensors, sha256, write_json
from sgfi.storage.files import write_tensors as write
from sgfi.storage.folder import graph_for, model_record, replan
from sgfi.storage.forward import check_forward, forward_record, versions
from sgfi.storage.manifest import CHECKSUM, FILE, FORWARD, LARGEST, MODEL, PLAN, as_folder, read_sealed, sealed
from sgfi.storage.schema import Either, Items, Nothing, Real, Record, Shape, Table, Text, Whole, Word

DESCRIPTION, SAMPLES = "moments.json", "samples"
SUMS = ("xx", "yx", "energy", "target")
SCHEMA: Shape = Record(
    {
        "format": Word((1,)),
        "model": MODEL,
        "plan": PLAN,
        "number": Whole(1, 64),
        "after": Text(64, "([0-9a-f]{64})?", "a digest"),
        "on": Text(32),
        "count": Whole(1),
        "mean": Either((Nothing(), Items(Real(), LARGEST))),
        "provenance": Items(Table()),
        "forward": FORWARD,
        "files": Table(FILE),
        "samples": FILE,
        CHECKSUM: Text(64, "[0-9a-f]{64}", "a SHA-256 checksum"),
    },
    {"versions": Table(Text(200), 100)},
    closed=True,
)


def save_moments(moments: MomentSet, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a set to a new folder; nothing appears at ``path`` before it is complete."""
    path = as_folder(path)
    if path.exists() and not (overwrite and (path / DESCRIPTION).is_file()):
        todo = "Choose another, or pass overwrite=True for a folder of moments."
        raise StoreError("a path that does not exist yet", repr(str(path)), todo)
    plan = moments.plan
    with new_folder(path) as draft:
        entries = {}
        for name, own in moments.moments.items():
            file = node_file(draft, plan, name)
            tensors = {key: getattr(own, key) for key in SUMS}
            partition = plan.boundary[name].partition
            write(file, tensors | ({PARTITION: partition.groups} if partition.kind == "custom" else {}), {"node": name})
            entries[name] = _entry(file)
        digests = b"".join(sorted(moments.samples))
        rows = torch.frombuffer(bytearray(digests), dtype=torch.uint8).reshape(-1, DIGEST)
        write(draft / f"{SAMPLES}.safetensors", {SAMPLES: rows}, {})
        description = {
            "format": 1,
            "model": model_record(plan.graph, moments.fingerprint),
            "plan": plan.description,
            "number": moments.number,
            "after": moments.after,
            "on": moments.on,
            "count": moments.count,
            "mean": None if moments.mean is None else list(moments.mean),
            "provenance": [dict(part) for part in moments.provenance],
            "versions": versions(),
            "forward": forward_record(plan.graph, plan.boundaries),
            "files": entries,
            "samples": _entry(draft / f"{SAMPLES}.safetensors"),
        }
        write_json(draft / DESCRIPTION, sealed(description))
    return path


def read_description(path: str | Path) -> dict[str, Any]:
    """What a folder of moments says of itself, checked for form."""
    description = read_sealed(as_folder(path) / DESCRIPTION, SCHEMA)
    plan = description["plan"]
    fitted = {entry["name"] for entry in plan["boundaries"]} - {plan["target"]}
    if set(description["files"]) != fitted:
        got = ", ".join(sorted(set(description["files"]) ^ fitted)[:3])
        raise StoreError(f"a file for every fitted node in {path} and no other", got, AGAIN)
    return description


def load_moments(path: str | Path, model: nn.Module | TensorGraph) -> MomentSet:
    """Read a set for the model it was gathered on; sums stay on disk, memory-mapped."""
    path, description = as_folder(path), read_description(path)
    graph = graph_for(model, description["model"])
    check_forward(graph, description)
    files = {name: check_file(path, name, entry) for name, entry in description["files"].items()}
    plan = replan(graph, description["plan"], lambda name: _groups(files, name))
    count = description["count"]
    moments = {name: _moments(files[name], plan, plan.boundary[name], count) for name in plan.fitted}
    rows = read_tensors(check_file(path, SAMPLES, description[SAMPLES])).get(SAMPLES)
    if rows is None or rows.dtype != torch.uint8 or rows.dim() != 2 or rows.shape[1] != DIGEST:
        raise StoreError(f"digests of samples in {path}", "something else", AGAIN)
    mean = description["mean"]
    return MomentSet(
        plan,
        moments,
        frozenset(bytes(row) for row in rows.numpy()),
        description["number"],
        description["after"],
        description["on"],
        description["model"]["fingerprint"],
        None if mean is None else tuple(mean),
        tuple(description["provenance"]),
    )


def _entry(file: Path) -> dict[str, Any]:
    return {"file": file.name, "bytes": file.stat().st_size, "sha256": sha256(file)}


def _groups(files: dict[str, Path], name: str) -> str | Tensor:
    groups = read_tensors(files[name]).get(PARTITION) if name in files else None
    return "singleton" if groups is None else groups.clone()


def _moments(file: Path, plan: Plan, boundary: Boundary, count: int) -> Moments:
    """A node's sums, of the shapes and types that its boundary asks for."""
    real, device = plan.graph.input.dtype, plan.graph.device
    dtype = boundary.basis.dtype(real)
    sums = wide(dtype, device)
    across = (boundary.width,) if boundary.operator.full else ()
    groups, energies = boundary.partition.count, wide(torch.float32, device)
    wanted = {
        "xx": (sums, (groups, boundary.width, *across)),
        "yx": (sums, (groups, boundary.channels, *across)),
        "energy": (energies, ()),
        "target": (energies, ()),
    }
    tensors = read_tensors(file)
    for key, (kind, shape) in wanted.items():
        tensor = tensors.get(key)
        if tensor is None or tensor.dtype != kind or tuple(tensor.shape) != shape:
            got = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            raise StoreError(f"{key!r} of {boundary.name!r} as {kind} of shape {shape}", got, AGAIN)
    xx, yx, energy, target = (tensors[key].to(device) for key in SUMS)
    return Moments(xx, yx, energy, target, count, boundary.partition, range(groups), dtype)

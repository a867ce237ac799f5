"""The files of a map folder: written beside their final path and moved there when complete."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.errors import StoreError
from sgfi.spectral import WienerMap
from sgfi.storage.exchange import exchange
from sgfi.storage.scratch import LONGEST_STEM, Busy, PathLock, draft_of, is_draft, leftovers, own_folder, sync

MANIFEST = "manifest.json"
UNFINISHED = "calibration.json"
PAIRS = ".real_imaginary"
"""Ending of complex128 tensors, which safetensors does not know: stored as (..., 2) real and imaginary parts."""
PARTITION = "partition"
FINITE_NUMBERS = 1 << 24
"""Looked at in one go."""
AGAIN = "Copy the folder again or calibrate again."


def write_node(
    folder: Path, plan: Plan, name: str, maps: tuple[WienerMap, ...], precision: str = "full"
) -> dict[str, Any]:
    """One node's file; its entry for the manifest."""
    packed = [wiener.packed(precision).tensors() for wiener in maps]
    tensors = {f"{stage}.{key}": tensor for stage, held in enumerate(packed) for key, tensor in held.items()}
    partition = plan.boundary[name].partition
    if partition.kind == "custom":
        tensors[PARTITION] = partition.groups
    file = node_file(folder, plan, name)
    write_tensors(file, tensors, {"node": name})
    return {"file": file.name, "bytes": file.stat().st_size, "sha256": sha256(file)}


def node_file(folder: Path, plan: Plan, name: str) -> Path:
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:LONGEST_STEM]
    return folder / f"{plan.fitted.index(name):03d}_{stem}.safetensors"


def read_node(file: Path, plan: Plan, name: str) -> tuple[WienerMap, ...]:
    """A node's maps, memory-mapped; names, shapes and types of the tensors are those of the plan."""
    boundary, real = plan.boundary[name], plan.graph.input.dtype
    stages: dict[int, dict[str, Tensor]] = {}
    try:
        for key, tensor in read_tensors(file).items():
            if key != PARTITION:
                stage, _, weight = key.partition(".")
                stages.setdefault(int(stage), {})[weight] = tensor
        if sorted(stages) != list(range(len(stages))) or not stages:
            raise ValueError(f"maps {sorted(stages)[:10]} in place of 0, 1, ...")
        return tuple(
            WienerMap.from_tensors(boundary.basis, boundary.partition, boundary.operator, stages[stage], real)
            for stage in sorted(stages)
        )
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise StoreError(
            f"a readable map file {file.name} of node {name!r}", f"{type(error).__name__}: {error}", AGAIN
        ) from error


def read_partition(file: Path) -> Tensor:
    """The group ids of a custom partition."""
    try:
        groups = read_tensors(file)[PARTITION].clone()
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise StoreError(f"group ids in {file.name}", f"{type(error).__name__}: {error}", AGAIN) from error
    if groups.dtype != torch.int64 or groups.dim() != 1:
        raise StoreError(f"group ids in {file.name}", f"{groups.dtype} of shape {tuple(groups.shape)}", AGAIN)
    return groups


def check_file(folder: Path, name: str, entry: Mapping[str, Any]) -> Path:
    """A node's file: inside the folder, present, complete, unaltered, and finite."""
    file = inside(folder, entry["file"])
    if not file.is_file():
        raise StoreError(f"map file {entry['file']} of node {name!r}", "no such file", AGAIN)
    if file.stat().st_size != entry["bytes"]:
        raise StoreError(f"{entry['bytes']} bytes in {file.name}", f"{file.stat().st_size} bytes", AGAIN)
    if sha256(file) != entry["sha256"]:
        raise StoreError(f"{file.name} as it was written", "different contents (checksum)", AGAIN)
    try:
        for key, tensor in read_tensors(file).items():
            check_finite(tensor, f"{key!r} in {file.name} of node {name!r}")
    except (OSError, safetensors.SafetensorError, ValueError, RuntimeError) as error:
        raise StoreError(f"a readable map file {file.name}", f"{type(error).__name__}: {error}", AGAIN) from error
    return file


def inside(folder: Path, name: str) -> Path:
    """The file of that name in the folder: no other folder, no link out of it."""
    file = folder / name
    if Path(name).name != name or file.resolve().parent != folder.resolve():
        raise StoreError(f"map files inside {folder}", f"{name!r}, which lies elsewhere", AGAIN)
    return file


def check_finite(tensor: Tensor, what: str) -> None:
    """A part at a time, for the tensor may be larger than memory."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return
    for part in tensor.split(max(1, FINITE_NUMBERS // max(1, tensor[:1].numel()))) if tensor.dim() else [tensor]:
        if not torch.isfinite(part).all():
            raise StoreError("finite maps", f"NaN or infinity in {what}", AGAIN)


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    parts = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    double = [key for key, part in parts.items() if part.dtype == torch.complex128]
    parts |= {key + PAIRS: torch.view_as_real(parts.pop(key)) for key in double}
    with draft_of(file) as draft:
        try:
            save_file(parts, draft, metadata=metadata)
        except safetensors.SafetensorError as error:  # how it reports a full disk
            raise OSError(str(error)) from error


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Memory-mapped."""
    tensors = load_file(file)
    return {
        key.removesuffix(PAIRS): _paired(tensor) if key.endswith(PAIRS) else tensor for key, tensor in tensors.items()
    }


def _paired(tensor: Tensor) -> Tensor:
    """(..., 2) real and imaginary parts as complex numbers.

    Files align to 8 bytes; kernels for complex128 rely on 16 and crash without. Copied where that fails.
    """
    aligned = tensor.data_ptr() % 16 == 0 and tensor.storage_offset() % 2 == 0
    return torch.view_as_complex(tensor if aligned else tensor.clone())


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    try:
        text = json.dumps(content, indent=1)
    except TypeError as error:
        raise StoreError(
            "provenance that JSON can hold", str(error), "Use plain numbers, text, lists, dicts."
        ) from error
    with draft_of(file) as draft:
        draft.write_text(text, encoding="utf-8")


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_map_folder(path: Path) -> bool:
    """A map folder, finished or not, or an empty one: anything else must not be replaced."""
    if not path.is_dir():
        return False
    return (path / MANIFEST).exists() or (path / UNFINISHED).exists() or all(map(is_draft, path.iterdir()))


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, moved to ``path`` when it is complete; gone after an error."""
    draft: Path | None = None
    lock: PathLock | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft, lock = own_folder(path.parent, f".{path.name}-")
        yield draft
        replace_folder(draft, path)
    except OSError as error:
        left = "What was there is untouched." if path.exists() else f"Nothing was left at {path}."
        raise StoreError("room and permission to write the folder", str(error), left) from error
    finally:
        if draft is not None and lock is not None:
            shutil.rmtree(draft, ignore_errors=True)
            lock.release()


def replace_folder(draft: Path, path: Path) -> None:
    """Move a finished folder to ``path``. Of one that is there already, there is at every moment the old or the new."""
    for file in draft.iterdir():
        if file.is_file():
            sync(file)
    sync(draft)
    if path.exists():
        lock = _lock(path)
        old, own = own_folder(path.parent, old_prefix(path))
        try:
            if not exchange(draft, path):
                _replace_in_two_steps(draft, path, old)
            else:
                os.replace(draft, old / path.name)
        finally:
            lock.release()
            shutil.rmtree(old, ignore_errors=True)
            own.release()
    else:
        os.replace(draft, path)
    sync(path.parent)


def restore_folder(path: Path) -> None:
    """Put a folder back that a kill between :func:`_replace_in_two_steps` left under its other name."""
    if path.name and not path.exists():
        for old in leftovers(path.parent, old_prefix(path)):
            with contextlib.suppress(OSError):
                os.rename(old / path.name, path)


def old_prefix(path: Path) -> str:
    """Of the folder that holds, for a moment, what is being replaced."""
    return f".{path.name}-old-"


def _lock(path: Path) -> PathLock:
    try:
        return PathLock(path)
    except Busy as error:
        raise StoreError(
            "a folder that nobody is working in",
            f"{path}, where a calibration is running",
            "Wait for it to end, stop it, or choose another folder.",
        ) from error


def _replace_in_two_steps(draft: Path, path: Path, old: Path) -> None:
    """Where folders cannot be exchanged: an error or an interruption in between puts the old one back."""
    os.replace(path, old / path.name)
    try:
        os.replace(draft, path)
    except BaseException:
        os.replace(old / path.name, path)
        raise

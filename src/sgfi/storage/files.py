"""The files of a map folder: written beside their final path and moved there when complete."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.errors import StoreError
from sgfi.spectral import WienerMap

MANIFEST = "manifest.json"
UNFINISHED = "calibration.json"
PAIRS = ".real_imaginary"
"""Ending of complex128 tensors, which safetensors does not know: stored as (..., 2) real and imaginary parts."""
PARTITION = "partition"


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
    return folder / f"{plan.fitted.index(name):03d}_{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.safetensors"


def read_node(file: Path, plan: Plan, name: str) -> tuple[WienerMap, ...]:
    boundary, real = plan.boundary[name], plan.graph.input.dtype
    stages: dict[int, dict[str, Tensor]] = {}
    try:
        for key, tensor in read_tensors(file).items():
            if key != PARTITION:
                stage, _, weight = key.partition(".")
                stages.setdefault(int(stage), {})[weight] = tensor
        return tuple(
            WienerMap.from_tensors(boundary.basis, boundary.partition, boundary.operator, stages[stage], real)
            for stage in sorted(stages)
        )
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        raise StoreError(
            f"a readable map file {file.name} of node {name!r}",
            f"{type(error).__name__}: {error}",
            "Copy the folder again or calibrate again.",
        ) from error


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    parts = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    double = [key for key, part in parts.items() if part.dtype == torch.complex128]
    parts |= {key + PAIRS: torch.view_as_real(parts.pop(key)) for key in double}
    with _draft(file) as draft:
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
    with _draft(file) as draft:
        draft.write_text(text)


@contextmanager
def _draft(file: Path) -> Iterator[Path]:
    """A path to write to, moved to ``file`` at the end; gone after an error."""
    draft = file.with_suffix(".part")
    try:
        yield draft
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_map_folder(path: Path) -> bool:
    """A map folder, finished or not, or an empty one: anything else must not be replaced."""
    return path.is_dir() and ((path / MANIFEST).exists() or (path / UNFINISHED).exists() or not any(path.iterdir()))


def replace_folder(draft: Path, path: Path) -> None:
    """Move a finished folder to ``path``; an existing one there is put back if that fails."""
    if path.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
        os.replace(path, old / path.name)
        try:
            os.replace(draft, path)
        except BaseException:  # an interruption too: put the old one back
            os.replace(old / path.name, path)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(draft, path)
    os.chmod(path, 0o755)

"""Inputs from array files: sizes are read from the header and bounded before anything is allocated."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sgfi.calibration.memory import available
from sgfi.errors import DataError
from sgfi.settings import readable


def read_array(path: Path, shape: tuple[int, ...]) -> torch.Tensor:
    """Inputs already in the model's coordinates: .npy (N, ...), or the only / the ``inputs`` tensor of a
    .safetensors."""
    try:
        if path.suffix == ".npy":
            # Mapped first: a header that claims more than the file holds is refused before anything is allocated.
            inputs = torch.from_numpy(np.array(np.load(path, mmap_mode="r", allow_pickle=False)))
        else:
            from safetensors.torch import load_file

            tensors = load_file(path)
            inputs = tensors["inputs"] if "inputs" in tensors else next(iter(tensors.values()))
    except Exception as error:
        got = f"{path.name}: {type(error).__name__} {error}"
        raise DataError("a readable array file", got, "Write it again.") from error
    if tuple(inputs.shape[1:]) != shape or not inputs.is_floating_point() or not inputs.dim():
        raise DataError(
            f"floating point inputs of shape (N, {', '.join(map(str, shape))})",
            f"{inputs.dtype} of shape {tuple(inputs.shape)} in {path.name}",
            "Save inputs that are already prepared for the model, or set --size.",
        )
    inputs = inputs.to(torch.float32)
    if not torch.isfinite(inputs).all():
        raise DataError("finite inputs", f"NaN or infinity in {path.name}", "Look for the row and leave it out.")
    return inputs


def read_pictures(path: Path) -> Any:
    """The array ``images`` of an .npz: uint8 (N, H, W, 3)."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "images.npy" not in names:
                raise DataError("an array named 'images'", f"{names[:10]} in {path.name}", "Save it under this name.")
            member = archive.getinfo("images.npy")
            _check_size(member.file_size, path)
            with archive.open(member) as stream:
                _check_size(_claimed(stream), path, held=member.file_size)
        with np.load(path, allow_pickle=False) as arrays:
            images = arrays["images"]
    except DataError:
        raise
    except Exception as error:  # zip and array files can be broken in many ways
        got = f"{path.name}: {type(error).__name__} {error}"
        raise DataError("a readable .npz file", got, "Write it again.") from error
    if not images.ndim or not len(images):
        raise DataError("at least one picture", f"an array of shape {images.shape} in {path.name}", "Check the file.")
    if images.dtype == np.uint8 and (images.ndim != 4 or images.shape[-1] != 3 or 0 in images.shape):
        raise DataError("pictures of shape (N, H, W, 3)", f"{images.shape} in {path.name}", "Save them in this form.")
    return images


def _claimed(stream: Any) -> int:
    """Bytes of the array that an .npy header announces."""
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = read(stream)
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def _check_size(size: int, path: Path, held: int | None = None) -> None:
    if size > available() or (held is not None and size > held):
        raise DataError(
            f"pictures that fit into memory ({readable(available())})",
            f"{readable(size)} in {path.name}",
            "Use a smaller file, or a folder of pictures, which is read as needed.",
        )

"""Seeded samples of inputs: evaluation first, then calibration from what is left.

Because the evaluation inputs are drawn first, they stay the same for every calibration size and seed, and the
calibration inputs can be disjoint from them by construction: no input whose contents occur among them is drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sgfi.errors import DataError
from sgfi.inputs.data import IMAGE_SUFFIXES, TEXT_SUFFIXES, Batches, ImageBatches, Mirrored, TensorBatches, read_array
from sgfi.inputs.models import LoadedModel
from sgfi.inputs.preprocessing import pixels
from sgfi.inputs.text import text_windows


@dataclass(frozen=True)
class Source:
    """Inputs that can be picked by index: image files, rows of an array, or windows of a text."""

    path: Path
    files: tuple[Path, ...] = ()
    rows: Any = None
    """(N, ...): uint8 pictures (N, H, W, 3), token ids (N, L), or inputs in the model's coordinates."""

    def __len__(self) -> int:
        return len(self.files) if self.rows is None else len(self.rows)

    def digest(self, index: int) -> str:
        """Of the contents, wherever they are stored."""
        data = self.files[index].read_bytes() if self.rows is None else np.ascontiguousarray(self.rows[index]).tobytes()
        return hashlib.sha256(data).hexdigest()

    def batches(self, indices: Sequence[int], loaded: LoadedModel, size: int) -> Batches:
        """The picked inputs, prepared for the model."""
        if self.rows is None:
            if loaded.preprocessing is None:
                raise DataError(f"inputs for {loaded.spec}", "images", "This model does not take images.")
            return ImageBatches([self.files[index] for index in indices], loaded.preprocessing, size)
        names = [f"{self.path.stem}[{index}]" for index in indices]
        picked = self.rows[list(indices)]
        if picked.dtype == np.uint8:
            return TensorBatches(_prepared(picked, loaded), names, size, "pictures")
        if picked.dtype == np.int64 and loaded.embed is not None:
            return TensorBatches(loaded.embed(torch.from_numpy(picked)).detach(), names, size, "text")
        return TensorBatches(torch.from_numpy(picked), names, size)


@dataclass(frozen=True)
class Sample:
    """Inputs that were drawn, and where from."""

    path: str
    indices: tuple[int, ...]
    """In the sorted source."""
    batches: Batches
    marks: tuple[str, ...]
    """Digest of each input's contents."""
    mirrored: bool = False

    @property
    def digest(self) -> str:
        """Of all contents, in order."""
        return hashlib.sha256("".join((*self.marks, "mirrored" * self.mirrored)).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        record = {"path": Path(self.path).name, "digest": self.digest, "indices": list(self.indices)}
        return {**record, "mirrored": True} if self.mirrored else record


def open_source(path: str | Path, loaded: LoadedModel) -> Source:
    """A folder of images (searched recursively), an .npz of ``images``, an .npy or .safetensors of inputs, a text."""
    path = Path(path)
    if path.is_dir():
        return Source(path, tuple(sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES)))
    if path.suffix == ".npz" and path.is_file():
        with np.load(path, allow_pickle=False) as arrays:
            if "images" not in arrays:
                raise DataError("an array named 'images'", f"{list(arrays)} in {path.name}", "Save it under this name.")
            return Source(path, rows=arrays["images"])
    if path.suffix in (".npy", ".safetensors") and path.is_file():
        return Source(path, rows=read_array(path, loaded.input_shape).numpy())
    if path.suffix in TEXT_SUFFIXES and path.is_file():
        return Source(path, rows=text_windows(path, loaded).numpy())
    raise DataError("a folder of images, a text, or an .npz, .npy or .safetensors", f"{path}", "Check the path.")


def draw(
    calibration: Source,
    evaluation: Source,
    loaded: LoadedModel,
    *,
    counts: tuple[int, int],
    seeds: tuple[int, int],
    batch: int,
    mirror: bool = False,
) -> tuple[Sample, Sample]:
    """Calibration and evaluation samples, disjoint by contents. ``counts`` and ``seeds``: calibration, evaluation."""
    held_out, held_out_marks = _pick(evaluation, counts[1], seeds[1], set(), "evaluation")
    fit, fit_marks = _pick(calibration, counts[0], seeds[0], set(held_out_marks), "calibration")
    fitted = _sample(calibration, fit, fit_marks, loaded, batch)
    if mirror:
        fitted = replace(fitted, batches=Mirrored(fitted.batches, loaded), mirrored=True)
    return fitted, _sample(evaluation, held_out, held_out_marks, loaded, batch)


def _pick(source: Source, count: int, seed: int, taken: set[str], what: str) -> tuple[list[int], list[str]]:
    """The first ``count`` inputs of a seeded order whose contents are new."""
    indices: list[int] = []
    marks: list[str] = []
    seen = set(taken)
    for index in np.random.default_rng(seed).permutation(len(source)).tolist():
        if len(indices) == count:
            break
        mark = source.digest(index)
        if mark not in seen:
            seen.add(mark)
            indices.append(index)
            marks.append(mark)
    if len(indices) < count:
        raise DataError(
            f"{count} {what} inputs that occur nowhere else in the samples",
            f"{len(indices)} in {source.path}",
            f"Lower data.{what}_count or give more data.",
        )
    return indices, marks


def _sample(source: Source, indices: list[int], marks: list[str], loaded: LoadedModel, batch: int) -> Sample:
    """The picked inputs; files that turn out to be unreadable are left out of the record too."""
    batches = source.batches(indices, loaded, batch)
    if isinstance(batches, ImageBatches):
        readable = set(batches.paths)
        kept = [(i, mark) for i, mark in zip(indices, marks, strict=True) if source.files[i] in readable]
        indices, marks = [i for i, _ in kept], [mark for _, mark in kept]
    return Sample(str(source.path), tuple(indices), batches, tuple(marks))


def _prepared(pictures: np.ndarray, loaded: LoadedModel) -> torch.Tensor:
    """uint8 (N, H, W, 3) -> float32 (N, C, h, w) as the model wants them."""
    from PIL import Image

    if loaded.preprocessing is None:
        raise DataError(f"inputs for {loaded.spec}", "pictures", "This model does not take images.")
    crops = [pixels(loaded.preprocessing.crop(Image.fromarray(picture))) for picture in pictures]
    return loaded.preprocessing.normalise(torch.stack(crops))

"""Seeded samples of inputs: evaluation first, then calibration from what is left.

Because the evaluation inputs are drawn first, they stay the same for every calibration size and seed, and the
calibration inputs can be disjoint from them by construction: no input whose contents occur among them is drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sgfi.errors import DataError
from sgfi.inputs.data import ImageBatches, InputBatches, Mirrored, Source, class_numbers
from sgfi.inputs.data import open_source as open_source  # also known from here
from sgfi.inputs.models import LoadedModel


@dataclass(frozen=True)
class Sample:
    """Inputs that were drawn, and where from."""

    path: str
    indices: tuple[int, ...]
    """In the sorted source."""
    batches: InputBatches
    marks: tuple[str, ...]
    """Digest of each input's contents."""
    mirrored: bool = False
    files: tuple[Path, ...] = ()
    """All files of the source, of which the indices are places; none for arrays."""

    @property
    def labels(self) -> list[int]:
        """The class of each input, by its folder among all of the source's; an error where there are no folders."""
        classes = class_numbers(self.files)
        return [classes[index] for index in self.indices]

    @property
    def digest(self) -> str:
        """Of all contents, in order."""
        return hashlib.sha256("".join((*self.marks, "mirrored" * self.mirrored)).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        record = {"path": Path(self.path).name, "digest": self.digest, "indices": list(self.indices)}
        return {**record, "mirrored": True} if self.mirrored else record


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
    held_out = _pick(evaluation, counts[1], seeds[1], {}, "evaluation")
    fitted = _sample(calibration, _pick(calibration, counts[0], seeds[0], held_out, "calibration"), loaded, batch)
    if mirror:
        fitted = replace(fitted, batches=Mirrored(fitted.batches, loaded), mirrored=True)
    return fitted, _sample(evaluation, held_out, loaded, batch)


def _pick(source: Source, count: int, seed: int, taken: Collection[str], what: str) -> dict[str, int]:
    """The first ``count`` inputs of a seeded order whose contents are new: digest -> index."""
    picked: dict[str, int] = {}
    for index in np.random.default_rng(seed).permutation(len(source)).tolist():
        if len(picked) == count:
            break
        mark = source.digest(index)
        if mark not in taken:
            picked.setdefault(mark, index)
    if len(picked) < count:
        raise DataError(
            f"{count} {what} inputs that occur nowhere else in the samples",
            f"{len(picked)} in {source.path}",
            f"Lower data.{what}_count or give more data.",
        )
    return picked


def _sample(source: Source, picked: dict[str, int], loaded: LoadedModel, batch: int) -> Sample:
    """The picked inputs; files that turn out to be unreadable are left out of the record too."""
    batches = source.batches(list(picked.values()), loaded, batch)
    if isinstance(batches, ImageBatches):
        readable = set(batches.paths)
        picked = {mark: index for mark, index in picked.items() if source.files[index] in readable}
    return Sample(str(source.path), tuple(picked.values()), batches, tuple(picked), files=source.files)

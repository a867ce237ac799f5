"""Inputs from disk, as batches that can be iterated over again.

A calibration passes over its data several times, so every source here is re-iterable, always in the same order. Files
that cannot be read are skipped with one warning each and counted; they never change the order of the others.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from sgfi.errors import DataError
from sgfi.graph.raw import raw_bytes
from sgfi.inputs.arrays import read_array, read_pictures
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing, pixels
from sgfi.inputs.text import text_windows

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm"})
ARRAY_SUFFIXES = frozenset({".npy", ".safetensors"})
TEXT_SUFFIXES = frozenset({".txt", ".md"})
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
"""Of PIL's, those of the suffixes: by contents, a file may be any of them."""
MOST_PIXELS = 1 << 27
"""Of one picture: more takes more than 400 MB to decode."""
CACHE_BYTES = 512 * 2**20


class SkippedFile(UserWarning):
    """An input file that could not be read."""


class InputBatches(Protocol):
    """What every source of inputs offers."""

    names: list[str]
    skipped: list[str]
    batch_size: int

    def __iter__(self) -> Iterator[torch.Tensor]: ...
    def __getitem__(self, index: int) -> torch.Tensor: ...
    def __len__(self) -> int: ...
    def describe(self) -> dict[str, Any]: ...


class TensorBatches:
    """Inputs that are already in memory and already prepared for the model: (N, ...) cut into batches."""

    def __init__(self, inputs: torch.Tensor, names: Sequence[str], batch_size: int = 16, kind: str = "array") -> None:
        if len(inputs) == 0:
            raise DataError("at least one input", "none", "Check the file or the limit.")
        self.inputs, self.names, self.batch_size, self.kind = inputs, list(names), batch_size, kind
        self.skipped: list[str] = []

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.inputs.split(self.batch_size))

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.inputs[_span(self, index)]

    def __len__(self) -> int:
        return -(-len(self.inputs) // self.batch_size)

    def describe(self) -> dict[str, Any]:
        """For the manifest: how many inputs, and a digest that identifies the data set."""
        digest = hashlib.sha256(raw_bytes(self.inputs)).hexdigest()
        return {"kind": self.kind, "inputs": len(self.inputs), "skipped": [], "digest": digest[:16]}


class ImageBatches:
    """Image files, prepared on the way; decoded pixels are kept in memory while they fit."""

    def __init__(self, paths: Sequence[Path], preprocessing: Preprocessing, batch_size: int = 16) -> None:
        self.preprocessing, self.batch_size = preprocessing, batch_size
        self.skipped: list[str] = []
        self._cache: dict[Path, torch.Tensor] = {}
        self._cache_left = CACHE_BYTES
        self.paths = [path for path in paths if self._readable(path)]
        if not self.paths:
            raise DataError(
                "at least one readable image", f"{len(paths)} files, none of them readable", "Check the folder."
            )
        self.names = [shown(path.stem) for path in self.paths]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> torch.Tensor:
        crops = [self._crop(path) for path in self.paths[_span(self, index)]]
        return self.preprocessing.normalise(torch.stack(crops))  # (B, C, H, W)

    def __len__(self) -> int:
        return -(-len(self.paths) // self.batch_size)

    def describe(self) -> dict[str, Any]:
        """For the manifest: counts, the skipped names, and a digest of the file names and sizes."""
        listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in self.paths)
        return {
            "kind": "images",
            "inputs": len(self.paths),
            "skipped": self.skipped,
            "digest": hashlib.sha256(os.fsencode(listing)).hexdigest()[:16],
        }

    def _readable(self, path: Path) -> bool:
        try:
            self._crop(path)
        except DataError as error:
            self.skipped.append(shown(path.name))
            warnings.warn(f"skipped {error.got}", SkippedFile, stacklevel=3)
            return False
        return True

    def _crop(self, path: Path) -> torch.Tensor:
        """uint8 (C, H, W), from the cache when it is there."""
        if path in self._cache:
            return self._cache[path]
        crop = pixels(self.preprocessing.crop(open_image(path), shown(path.name)))
        if crop.numel() <= self._cache_left:
            self._cache_left -= crop.numel()
            self._cache[path] = crop
        return crop


@dataclass(frozen=True)
class Source:
    """Inputs that can be picked by index: image files, rows of an array, or windows of a text."""

    path: Path
    files: tuple[Path, ...] = ()
    rows: Any = None
    """(N, ...): uint8 pictures (N, H, W, 3), token ids (N, L), or inputs in the model's coordinates."""

    def __len__(self) -> int:
        return len(self.files) if self.rows is None else len(self.rows)

    def spread(self, count: int) -> Source:
        """Some of the inputs: of files a spread, so that every class has its share; of rows the first."""
        files = tuple(self.files[index * len(self.files) // count] for index in range(count)) if self.files else ()
        return replace(self, files=files, rows=None if self.rows is None else self.rows[:count])

    def digest(self, index: int) -> str:
        """Of the contents, wherever they are stored."""
        data = self.files[index].read_bytes() if self.rows is None else np.ascontiguousarray(self.rows[index]).tobytes()
        return hashlib.sha256(data).hexdigest()

    def batches(self, indices: Sequence[int], loaded: LoadedModel, size: int) -> InputBatches:
        """The picked inputs, prepared for the model; a range is of the first ones."""
        if self.rows is None:
            return ImageBatches([self.files[index] for index in indices], image_preparation(loaded), size)
        names = [f"{self.path.stem}[{index}]" for index in indices]
        picked = self.rows[: len(indices)] if isinstance(indices, range) else self.rows[list(indices)]
        if picked.dtype == np.uint8:
            return TensorBatches(_prepared(picked, loaded), names, size, "pictures")
        if picked.dtype == np.int64 and loaded.embed is not None:
            return TensorBatches(loaded.embed(torch.from_numpy(picked)).detach(), names, size, "text")
        return TensorBatches(torch.from_numpy(picked), names, size)


def class_numbers(files: Sequence[Path]) -> list[int]:
    """The class of every image: the number that names its folder, else its folder's place among the sorted ones."""
    folders = [path.parent.name for path in files]
    if folders and all(name.isdecimal() for name in folders):
        return [int(name) for name in folders]
    places = {name: number for number, name in enumerate(sorted(set(folders)))}
    if len(places) < 2:
        raise DataError(
            "images in one folder for each class, named by its class number (0000, 0001, ...) or in its order",
            repr(next(iter(places), "no folder of images")),
            "Leave the choice of correctly classified images out, or sort them so.",
        )
    return [places[name] for name in folders]


class Mirrored:
    """Every batch, and after it the same inputs mirrored left to right: twice the samples."""

    def __init__(self, batches: InputBatches, loaded: LoadedModel) -> None:
        if loaded.preprocessing is None:
            raise DataError("pictures to mirror", f"other inputs of {loaded.spec}", "Leave mirroring out.")
        self._batches, self.skipped, self.batch_size = batches, batches.skipped, batches.batch_size
        self.names: list[str] = []
        for start in range(0, len(batches.names), self.batch_size):
            names = batches.names[start : start + self.batch_size]
            self.names += [*names, *(f"{name} mirrored" for name in names)]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (part for x in self._batches for part in (x, x.flip(-1)))

    def __getitem__(self, index: int) -> torch.Tensor:
        x = self._batches[index // 2]
        return x.flip(-1) if index % 2 else x

    def __len__(self) -> int:
        return 2 * len(self._batches)

    def describe(self) -> dict[str, Any]:
        return {**self._batches.describe(), "mirrored": True}


def _span(batches: TensorBatches | ImageBatches, index: int) -> slice:
    """Which inputs make up a batch."""
    if not 0 <= index < len(batches):
        raise IndexError(index)
    return slice(index * batches.batch_size, (index + 1) * batches.batch_size)


def open_image(path: Path) -> Any:
    """A fully decoded PIL image; anything wrong with the file is a DataError.

    Size and format are read from the header, and looked at before anything is decoded. Formats that PIL hands to other
    programs (EPS to Ghostscript) are not among ours, whatever the file is called.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not path.is_file():
        raise DataError("an image file", f"{path.name}, which is {_what_is_at(path)}", "Check the path.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PIL, about what is wrong with the file; ours is the error
            with Image.open(path, formats=FORMATS) as image:
                _check_pixels(path, *image.size)
                return ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError as error:  # its own words repeat the whole path
        raise _undecodable(path, "no known image format") from error
    except DataError:
        raise
    except Exception as error:  # PIL's readers of broken files raise nearly anything
        raise _undecodable(path, f"{type(error).__name__}: {error}") from error


def _what_is_at(path: Path) -> str:
    return "no regular file" if os.path.lexists(path) else "not there"


def _check_pixels(path: Path, width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise _undecodable(path, f"{width} x {height} pixels, more than {MOST_PIXELS}")


def _undecodable(path: Path, why: str) -> DataError:
    return DataError("a picture that can be decoded", f"{shown(path.name)} ({why})", "Replace or remove the file.")


def shown(name: str) -> str:
    """A file's name as text that can be printed: bytes that are no UTF-8 as question marks."""
    return name.encode("utf-8", "replace").decode()


def _as_path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError as error:
        raise DataError("the path of inputs", type(path).__name__, "Pass text or a pathlib.Path.") from error


def read_image(path: str | Path, preprocessing: Preprocessing) -> torch.Tensor:
    """One file -> float32 (1, C, H, W), prepared for the model."""
    return preprocessing(open_image(_as_path(path)))[None]


def open_data(path: str | Path, loaded: LoadedModel, batch_size: int = 16, limit: int | None = None) -> InputBatches:
    """What :func:`open_source` reads, prepared for the model; ``limit`` takes the first ones, of a folder a spread."""
    for what, number in (("batch size", batch_size), ("limit", limit)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise DataError(f"a {what} of 1 or more", repr(number), "Give a positive whole number.")
    source = open_source(path, loaded)
    count = len(source) if limit is None else min(limit, len(source))
    spread = [index * len(source) // count for index in range(count)]  # so that every class has its share
    return source.batches(spread if source.files else range(count), loaded, batch_size)


def open_source(path: str | Path, loaded: LoadedModel) -> Source:
    """A folder of images (searched recursively), one image, an .npy or .safetensors of inputs, an .npz of ``images``,
    or a text file."""
    path = _as_path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and not p.is_dir())
        if not files:
            known = ", ".join(sorted(IMAGE_SUFFIXES))
            raise DataError("images in the folder", f"none below {path}", f"Known: {known}.")
        return Source(path, tuple(files))
    if not path.is_file():
        raise DataError(
            "a folder of images, an image, an array or a text file", f"nothing at {path}", "Check the path."
        )
    if suffix in IMAGE_SUFFIXES:
        open_image(path)  # a single broken file is an error, not skipped
        return Source(path, (path,))
    if suffix in ARRAY_SUFFIXES:
        return Source(path, rows=read_array(path, loaded.input_shape).numpy())
    if suffix in TEXT_SUFFIXES:
        return Source(path, rows=text_windows(path, loaded).numpy())
    if suffix == ".npz":
        return Source(path, rows=read_pictures(path))
    known = ", ".join(sorted(IMAGE_SUFFIXES | ARRAY_SUFFIXES | TEXT_SUFFIXES | {".npz"}))
    raise DataError(f"a file that ends in one of {known}", path.name, "Convert it to one of these.")


def _prepared(pictures: np.ndarray, loaded: LoadedModel) -> torch.Tensor:
    """uint8 (N, H, W, 3) -> float32 (N, C, h, w) as the model wants them."""
    from PIL import Image

    preparation = image_preparation(loaded)
    crops = [pixels(preparation.crop(Image.fromarray(picture))) for picture in pictures]
    return preparation.normalise(torch.stack(crops))


def image_preparation(loaded: LoadedModel) -> Preprocessing:
    """How the model wants its images; an error where it takes none."""
    if loaded.preprocessing is None:
        raise DataError(
            f"inputs of shape {loaded.input_shape} for {loaded.spec}",
            "images",
            "This model does not take images; give an .npy, .safetensors or text file.",
        )
    return loaded.preprocessing

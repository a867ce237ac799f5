"""Inputs under the digest of their bytes: pictures, texts, prepared tensors. Every limit stands here."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from sgfi.errors import DataError
from sgfi.explorer.lenses import Lens
from sgfi.explorer.store import Store
from sgfi.inputs.data import open_image
from sgfi.report.look import embedded

BYTES, PIXELS, LETTERS = 20 * 2**20, 40_000_000, 4000
"""Largest upload, largest picture, longest text."""
FORMATS = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp", "GIF": ".gif", "TIFF": ".tif"}
KINDS = ("picture", "text", "tensor")


@dataclass(frozen=True)
class Input:
    """What a model is asked about, not yet prepared for any."""

    sha: str
    name: str
    kind: str
    file: Path

    def fits(self, lens: Lens) -> bool:
        if self.kind == "tensor":
            return tuple(load(self.file.read_bytes())["x"].shape[1:]) == tuple(lens.loaded.input_shape)
        return lens.text if self.kind == "text" else lens.picture

    def prepared(self, lens: Lens) -> Tensor:
        """(1, *input)"""
        if not self.fits(lens):
            wanted = "texts" if lens.text else f"pictures or tensors of shape {tuple(lens.loaded.input_shape)}"
            raise DataError(f"an input of {lens.title}, which takes {wanted}", f"a {self.kind}", "Choose another.")
        if self.kind == "tensor":
            return load(self.file.read_bytes())["x"]
        if self.kind == "text":
            return embedded(lens.loaded, self.text)
        return lens.preprocessing(open_image(self.file))[None]

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")


def keep_bytes(store: Store, data: bytes, name: str, kind: str) -> Input:
    """Check and store what somebody sent; the name is only ever shown."""
    if len(data) > BYTES:
        raise DataError(f"at most {BYTES >> 20} MiB", f"{len(data) / 2**20:.1f} MiB", "Send a smaller file.")
    if kind == "text":
        suffix = _check_text(data)
    elif kind == "picture":
        suffix = _check_picture(data)
    else:
        raise DataError("a picture or a text", f"a {kind}", "Send an image file, or plain text.")
    shown = "".join(letter for letter in name if letter.isprintable())[:80] or kind
    return _kept(store, data, {"name": shown, "kind": kind, "suffix": suffix})


def keep_tensor(store: Store, x: Tensor, name: str) -> Input:
    """A prepared input (1, *input) of a notebook."""
    data = save({"x": x.detach().cpu().contiguous()})
    return _kept(store, data, {"name": name, "kind": "tensor", "suffix": ".safetensors"})


def _kept(store: Store, data: bytes, record: dict[str, str]) -> Input:
    sha = store.keep_input(data, record)
    return Input(sha, record["name"], record["kind"], store.input_file(sha, record))


def stored_inputs(store: Store) -> dict[str, Input]:
    """Everything that was ever sent to this folder, oldest first."""
    return {
        sha: Input(sha, record["name"], record["kind"], store.input_file(sha, record))
        for sha, record in store.input_records().items()
        if record.get("kind") in KINDS and store.input_file(sha, record).is_file()
    }


def _check_text(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("text in UTF-8", "other bytes", "Save it as UTF-8.") from error
    if not text.strip() or len(text) > LETTERS:
        raise DataError(f"a text of 1 to {LETTERS} letters", str(len(text)), "Send a shorter or longer one.")
    return ".txt"


def _check_picture(data: bytes) -> str:
    from io import BytesIO

    from PIL import Image

    expected = f"a picture ({', '.join(FORMATS)})"
    large = f"at most {PIXELS // 10**6} megapixels"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours is the stricter limit
            with Image.open(BytesIO(data), formats=list(FORMATS)) as image:
                width, height = image.size
                if width * height > PIXELS:
                    raise DataError(large, f"{width} x {height}", "Send a smaller one.")
                image.verify()
                return FORMATS[str(image.format)]
    except Image.DecompressionBombError as error:
        raise DataError(large, "many more", "Send a smaller one.") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(expected, "bytes that cannot be decoded as one", "Send an image file.") from error


def as_pixels(x: Tensor, lens: Lens) -> Tensor:
    """(C, H, W) in 0..1: an input as the model sees it."""
    return lens.preprocessing.denormalise(x)[0].clamp(0, 1).to(torch.float32)

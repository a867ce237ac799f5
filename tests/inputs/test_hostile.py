"""Files from anywhere: sizes are bounded before anything is allocated, and nothing in a file is run."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from sgfi.errors import DataError
from sgfi.inputs.data import ImageBatches, SkippedFile, open_data, open_image, open_source, read_image
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.models import load_model, reload_model
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.text import text_windows
from sgfi.inputs.weights import load_state, read_state

PREPARED = Preprocessing(size=(8, 8), resize=9, mean=(0.5,) * 3, std=(0.5,) * 3)
LOADED = LoadedModel("tiny", nn.Conv2d(3, 2, 3), PREPARED, (3, 8, 8))


def png(width: int, height: int) -> bytes:
    """A PNG whose header claims these sizes; its pixels are one row of zeros."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 1), (1, 2**31 - 1)])
def test_a_small_file_that_claims_many_pixels(size: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png(*size))
    with pytest.raises(DataError, match="pixels"):
        open_image(tmp_path / "bomb.png")


def test_a_picture_that_would_grow_when_resized(tmp_path: Path) -> None:
    Image.new("RGB", (1, 8000)).save(tmp_path / "line.png")
    prepared = Preprocessing(size=(224, 224), resize=256)
    with pytest.raises(DataError, match="proportion"):
        read_image(tmp_path / "line.png", prepared)
    Image.new("RGB", (40, 8000)).save(tmp_path / "narrow.png")
    assert read_image(tmp_path / "narrow.png", prepared).shape == (1, 3, 224, 224)


def test_a_file_of_another_program_is_not_handed_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: pytest.fail(f"ran {given}"))
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "picture.png").write_bytes(text)
    with pytest.raises(DataError, match="no known image format"):
        open_image(tmp_path / "picture.png")


def test_a_folder_skips_what_is_wrong_says_so_and_goes_on(tmp_path: Path) -> None:
    good = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8))
    good.save(tmp_path / "a.png")
    good.save(tmp_path / "cost$ of $x.png")
    good.save(os.fsencode(tmp_path) + b"/caf\xe9.png")
    (tmp_path / "bomb.png").write_bytes(png(100_000, 100_000))
    Image.new("RGB", (1, 60_000)).save(tmp_path / "line.png")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.png")
    big = Preprocessing(size=(64, 64), resize=64, mean=(0.5,) * 3, std=(0.5,) * 3)
    loaded = LoadedModel("tiny", nn.Conv2d(3, 2, 3), big, (3, 64, 64))
    with pytest.warns(SkippedFile) as said:
        batches = open_data(tmp_path, loaded)
    assert batches.names == ["a", "caf?", "cost$ of $x"]
    assert sorted(batches.skipped) == ["bomb.png", "dangling.png", "line.png", "pipe.png"] and len(said) == 4
    assert torch.cat(list(batches)).shape == (3, 3, 64, 64)
    assert batches.describe()["inputs"] == 3


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_broken_pictures_of_every_format(cut: int, tmp_path: Path) -> None:
    picture = Image.fromarray(np.random.default_rng(cut).integers(0, 256, (9, 9, 3), dtype=np.uint8))
    for kind in ("png", "jpg", "bmp", "webp", "tif", "gif", "ppm"):
        stream = io.BytesIO()
        picture.save(stream, {"jpg": "jpeg", "tif": "tiff"}.get(kind, kind))
        data = bytearray(stream.getvalue())
        data[cut % len(data)] ^= 1 << cut % 8
        (tmp_path / f"x.{kind}").write_bytes(data[: len(data) - cut])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with contextlib.suppress(DataError):
                open_image(tmp_path / f"x.{kind}")


@pytest.mark.parametrize("header", ["(1000000000000, 3, 8, 8)", "(-1, 3, 8, 8)", "(2, 3, 8, 8", "(1e9, 3)"])
def test_an_array_that_claims_more_than_it_holds(header: str, tmp_path: Path) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {header}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    (tmp_path / "x.npy").write_bytes(data + bytes(64))
    with pytest.raises(DataError):
        open_source(tmp_path / "x.npy", LOADED)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", data + bytes(64))
    with pytest.raises(DataError):
        open_source(tmp_path / "x.npz", LOADED)


def test_arrays_of_objects_and_of_numbers_that_are_none(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "nan.npy", np.full((2, 3, 8, 8), np.nan, dtype=np.float32))
    np.save(tmp_path / "scalar.npy", np.float32(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("objects.npy", "nan.npy", "scalar.npy", "text.npz"):
        with pytest.raises(DataError):
            open_source(tmp_path / name, LOADED)


@pytest.mark.parametrize("number", [0, -1, 2.5, "4"])
def test_batch_size_and_limit(number: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 8, 8), dtype=np.float32))
    for given in ({"batch_size": number}, {"limit": number}):
        with pytest.raises(DataError, match="1 or more"):
            open_data(tmp_path / "x.npy", LOADED, **given)


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran",)


def _itself() -> dict:
    state: dict = {}
    state["model"] = state
    return state


@pytest.mark.parametrize(
    "state",
    [
        _itself(),
        {"model": _itself()},
        {3: torch.ones(2), "weight": torch.ones(2)},
        {"weight": torch.ones(3).to_sparse()},
        {"weight": torch.ones(3, device="meta")},
        {"weight": "text"},
        [torch.ones(3)],
        3,
        {},
    ],
    ids=["itself", "itself deeper", "odd keys", "sparse", "meta", "text", "list", "number", "empty"],
)
def test_odd_weights_files(state: Any, tmp_path: Path) -> None:
    torch.save(state, tmp_path / "odd.pth")
    with pytest.raises(DataError):
        read_state(tmp_path / "odd.pth")


def test_pickled_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Evil()}, "evil.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pth", "plain.pth"):
        with pytest.raises(DataError):
            read_state(Path(name))
    assert not (tmp_path / "ran").exists()


def test_an_archive_that_grows_when_it_is_read(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(4_000_000)}, tmp_path / "plain.pth")
    with (
        zipfile.ZipFile(tmp_path / "plain.pth") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pth", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for member in plain.infolist():
            bomb.writestr(member.filename, plain.read(member))
    with pytest.raises(DataError, match="unpacks to"):
        read_state(tmp_path / "bomb.pth")
    assert read_state(tmp_path / "plain.pth")["weight"].numel() == 4_000_000


def test_complex_weights_are_not_made_real_in_silence(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    torch.save({n: v.to(torch.complex64) for n, v in model.state_dict().items()}, tmp_path / "c.pth")
    with pytest.raises(DataError, match="real weights"):
        load_state(model, tmp_path / "c.pth")


BUILD = "import torch\n{constants}\ndef build():\n    {body}\n"


@pytest.mark.parametrize(
    ("constants", "body"),
    [
        ("", "raise ValueError('planted')"),
        ("", "return 1 / 0"),
        ("INPUT_SHAPE = 3", "return torch.nn.Conv2d(3, 2, 3)"),
        ("INPUT_SHAPE = ('a', 8, 8)", "return torch.nn.Conv2d(3, 2, 3)"),
        ("INPUT_SHAPE = (3, -8, 8)", "return torch.nn.Conv2d(3, 2, 3)"),
        ("INPUT_SHAPE = (3, 100000, 100000)", "return torch.nn.Conv2d(3, 2, 3)"),
        ("INPUT_SHAPE = (3, 8, 8); MEAN = 'abc'", "return torch.nn.Conv2d(3, 2, 3)"),
        ("INPUT_SHAPE = (3, 8, 8); STD = (0.0, 1.0, 1.0)", "return torch.nn.Conv2d(3, 2, 3)"),
        ("", "return torch"),
    ],
)
def test_a_users_own_file_that_is_wrong(constants: str, body: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BUILD.format(constants=constants, body=body))
    with pytest.raises(DataError):
        load_model(f"{tmp_path / 'net.py'}:build")


@pytest.mark.parametrize("size", [0, -3, 100_000, 10**12])
def test_input_sizes_are_bounded(size: int) -> None:
    with pytest.raises(DataError):
        load_model("torchvision:resnet18", "none", size=size)


@pytest.mark.parametrize(
    "change",
    [
        {"spec": 3},
        {"weights": None},
        {"strict": "yes"},
        {"input_shape": "3, 8, 8"},
        {"input_shape": [3, 10**6, 10**6]},
        {"input_shape": [3, [8], 8]},
        {"preprocessing": [1]},
        {"preprocessing": {"size": [10**9, 8]}},
        {"preprocessing": {"size": [8, 8], "resize": 10**9}},
        {"preprocessing": {"size": 8}},
        {"preprocessing": {"mean": ["a"] * 3}},
        {"preprocessing": {"std": [float("nan")] * 3}},
        {"preprocessing": {"interpolation": ["nearest"]}},
        {"preprocessing": {"unknown": 3}},
    ],
)
def test_the_record_in_a_manifest_is_a_strangers_too(change: dict[str, Any]) -> None:
    record = {"spec": "torchvision:resnet18", "weights": "none", "strict": True, "input_shape": [3, 32, 32]}
    with pytest.raises(DataError):
        reload_model({**record, **change})


def test_a_text_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sgfi.inputs import text

    loaded = LoadedModel("lm", nn.Linear(2, 2), input_shape=(4, 2), tokenizer=object(), embed=nn.Embedding(3, 2))
    monkeypatch.setattr(text, "LONGEST_TEXT", 100)
    (tmp_path / "long.txt").write_text("word " * 100)
    with pytest.raises(DataError, match="at most 100 bytes"):
        text_windows(tmp_path / "long.txt", loaded)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="not a regular file"):
        text_windows(tmp_path / "pipe.txt", loaded)


@pytest.mark.parametrize("path", [3, None, ["photos"]])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(DataError, match="path"):
        open_data(path, LOADED)
    with pytest.raises(DataError, match="path"):
        read_image(path, PREPARED)


def test_images_of_nothing() -> None:
    with pytest.raises(DataError, match="readable"):
        ImageBatches([], PREPARED)

"""Data from disk: re-iterable, in order, broken files skipped and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from sgfi.errors import DataError
from sgfi.inputs.data import Mirrored, SkippedFile, TensorBatches, open_data, read_image
from sgfi.inputs.models import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing

PREPARED = Preprocessing(size=(8, 8))
IMAGES = LoadedModel("here", nn.Identity(), PREPARED, (3, 8, 8))
VECTORS = LoadedModel("here", nn.Identity(), None, (5,))


def write_images(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for i in range(count):
        subfolder = folder / f"class{i % 2}"
        subfolder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (10, 12, 3), dtype=np.uint8)).save(subfolder / f"{i:02d}.png")


def test_a_folder_is_read_recursively_and_twice_the_same(tmp_path: Path) -> None:
    write_images(tmp_path, 5)
    batches = open_data(tmp_path, IMAGES, batch_size=2)
    first, second = list(batches), list(batches)
    assert [len(b) for b in first] == [2, 2, 1] and len(batches) == 3
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert batches.names == ["00", "02", "04", "01", "03"]
    assert torch.equal(first[0][:1], read_image(tmp_path / "class0" / "00.png", PREPARED))


def test_a_limit_spreads_over_the_folder(tmp_path: Path) -> None:
    write_images(tmp_path, 6)
    assert open_data(tmp_path, IMAGES, limit=2).names == ["00", "01"]


def test_broken_images_are_skipped_with_a_warning_and_counted(tmp_path: Path) -> None:
    write_images(tmp_path, 3)
    (tmp_path / "broken.jpg").write_bytes(b"this is not a picture")
    whole = (tmp_path / "class0" / "00.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "notes.txt").write_text("ignored")
    with pytest.warns(SkippedFile) as caught:
        batches = open_data(tmp_path, IMAGES)
    assert sorted(batches.skipped) == ["broken.jpg", "cut.png"] and len(caught) == 2
    assert batches.describe()["inputs"] == 3 and batches.describe()["skipped"] == batches.skipped
    assert len(next(iter(batches))) == 3


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none below"):
        open_data(tmp_path, IMAGES)
    (tmp_path / "broken.jpg").write_bytes(b"")
    with pytest.warns(SkippedFile), pytest.raises(DataError, match="none of them readable"):
        open_data(tmp_path, IMAGES)
    with pytest.raises(DataError, match=r"broken\.jpg"):  # a single file is not skipped
        open_data(tmp_path / "broken.jpg", IMAGES)


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_arrays_are_taken_as_they_are(tmp_path: Path, suffix: str) -> None:
    values, path = torch.randn(5, 5), tmp_path / f"inputs{suffix}"
    if suffix == ".npy":
        np.save(path, values.numpy())
    else:
        save_file({"inputs": values}, path)
    batches = open_data(path, VECTORS, batch_size=3, limit=4)
    assert torch.equal(torch.cat(list(batches)), values[:4])


@pytest.mark.parametrize("wrong", ["shape", "integers", "objects", "nonsense", "suffix", "absent", "images"])
def test_unsuitable_files(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / ("x.xyz" if wrong == "suffix" else "x.npy")
    if wrong == "shape":
        np.save(path, np.zeros((4, 6), np.float32))
    elif wrong == "integers":
        np.save(path, np.zeros((4, 5), np.int64))
    elif wrong == "objects":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif wrong == "images":
        write_images(tmp_path, 1)
        path = tmp_path
    elif wrong != "absent":
        path.write_bytes(b"nonsense")
    with pytest.raises(DataError):
        open_data(path, VECTORS)


def test_another_data_set_has_another_digest() -> None:
    first, second = (TensorBatches(torch.full((2, 3), v), "ab") for v in (0.0, 1.0))
    assert first.describe()["digest"] != second.describe()["digest"]


def test_text_becomes_embedded_windows(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("a b c d e f g")
    table = nn.Embedding(10, 4)
    loaded = LoadedModel(
        "hf:x",
        nn.Identity(),
        None,
        (3, 4),
        tokenizer=lambda text, **_: {"input_ids": list(range(len(text.split())))},
        embed=table,
    )
    batches = open_data(path, loaded, 8)
    assert torch.equal(batches.inputs, table(torch.arange(6).view(2, 3)))
    assert len(open_data(path, loaded, 8, 1).inputs) == 1
    path.write_text("a b")
    with pytest.raises(DataError, match="at least 3 tokens"):
        open_data(path, loaded, 8)
    with pytest.raises(DataError, match="language model"):
        open_data(path, VECTORS)


def test_mirrored_batches_follow_their_own() -> None:
    inputs = torch.randn(5, 3, 8, 8)
    plain = TensorBatches(inputs, list("abcde"), batch_size=2)
    both = Mirrored(plain, IMAGES)
    parts = list(both)
    assert len(both) == len(parts) == 6
    for index, x in enumerate(parts):
        torch.testing.assert_close(x, plain[index // 2].flip(-1) if index % 2 else plain[index // 2])
        assert torch.equal(both[index], x)
    assert both.names[:4] == ["a", "b", "a mirrored", "b mirrored"] and len(both.names) == 10
    assert both.describe() == {**plain.describe(), "mirrored": True}
    with pytest.raises(DataError, match="pictures to mirror"):
        Mirrored(plain, VECTORS)


def test_an_npz_of_pictures_is_data_too(tmp_path: Path) -> None:
    write_images(tmp_path / "photos", 2)
    files = sorted((tmp_path / "photos").rglob("*.png"))
    np.savez(tmp_path / "pictures.npz", images=np.stack([np.array(Image.open(file)) for file in files]))
    batches = open_data(tmp_path / "pictures.npz", IMAGES, limit=1)
    assert torch.equal(torch.cat(list(batches)), read_image(files[0], PREPARED)) and batches.names == ["pictures[0]"]
    with pytest.raises(DataError, match="does not take images"):
        open_data(tmp_path / "pictures.npz", VECTORS)

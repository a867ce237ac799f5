"""``sgfi.look_all``: a folder of inputs, each result whole, resumed, broken files named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import sgfi
from sgfi.errors import DataError, QueryError, StoreError
from sgfi.inputs import LoadedModel, Preprocessing
from sgfi.inputs.data import SkippedFile, read_image
from sgfi.report import look_all as module
from sgfi.storage.scratch import PathLock

PREPARED = Preprocessing(size=(8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, 2)).eval()
    return LoadedModel("net", model, PREPARED, (3, 8, 8))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """``a.png``, ``a.bmp``, ``deep/b.png`` and two that are no pictures."""
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    (folder / "deep").mkdir(parents=True)
    for name in ("a.png", "a.bmp", "deep/b.png"):
        Image.fromarray(rng.integers(0, 256, (10, 9, 3), dtype=np.uint8)).save(folder / name)
    (folder / "broken.jpg").write_bytes(b"not a picture")
    (folder / "empty.png").write_bytes(b"")
    return folder


QUIET = {"progress": False, "jacobian": "point"}


def looked(loaded: LoadedModel, photos: Path, out: Path, form: str = ".safetensors", **changes: object) -> module.Looks:
    with pytest.warns(SkippedFile) as seen:
        looks = sgfi.look_all(loaded, photos, "2:1", out, form=form, **{**QUIET, **changes})  # type: ignore[arg-type]
    assert len(seen) == 2 and {str(each.message).split()[1] for each in seen} == {"broken.jpg", "empty.png"}
    return looks


def test_every_input_gets_what_look_gives_it(loaded: LoadedModel, photos: Path, tmp_path: Path) -> None:
    looks = looked(loaded, photos, tmp_path / "out")
    assert {record["input"]: record["file"] for record in looks.records} == {
        "a.bmp": "a.bmp.safetensors",
        "a.png": "a.png.safetensors",
        "deep/b.png": "deep/b.safetensors",
    }
    assert looks.skipped == ("broken.jpg", "empty.png") and looks.resumed == 0
    tensors = load_file(tmp_path / "out" / "deep" / "b.safetensors")
    alone = sgfi.look(loaded, photos / "deep" / "b.png", "2:1", jacobian="point")
    assert torch.equal(tensors["inverse"], alone.value) and torch.allclose(tensors["share"], alone.share)
    (answer,) = looks.records[2]["queries"]
    assert answer["sentence"] == alone.answers[0].sentence() and answer["verdict"] == alone.answers[0].verdict()
    assert looks.scores("random")["2:1"].shape == (3,) and looks.scores("swapped")["2:1"].isnan().all()
    assert "3 inputs" in str(looks) and "2 skipped: broken.jpg, empty.png" in str(looks) and "2:1: " in str(looks)


def test_a_second_run_goes_on(
    loaded: LoadedModel, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked = tmp_path / "out", []
    real = module.look_through

    def stops(*args: object) -> object:
        asked.append(args)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "look_through", stops)
    with pytest.raises(KeyboardInterrupt):
        sgfi.look_all(loaded, photos, "2:1", out, form=".safetensors", **QUIET)  # type: ignore[arg-type]
    with (out / "looks.jsonl").open("a") as lines:
        lines.write('{"input": "a.png", "dig')  # killed in the middle of a line
    assert looked(loaded, photos, out).resumed == 1 and len(asked) == 4
    again = looked(loaded, photos, out)
    assert again.resumed == 3 and len(asked) == 4
    assert [json.loads(line) for line in (out / "looks.jsonl").read_text().splitlines()] == list(again.records)
    (out / "a.png.safetensors").unlink()  # a result that is gone, and an input that has changed
    Image.new("RGB", (9, 9)).save(photos / "a.bmp")
    assert looked(loaded, photos, out).resumed == 1 and len(asked) == 6


def test_pictures_from_rows_and_another_input(loaded: LoadedModel, photos: Path, tmp_path: Path) -> None:
    rows = torch.cat([read_image(photos / name, PREPARED) for name in ("a.png", "a.bmp")])
    rows = torch.cat([rows, torch.full((1, 3, 8, 8), torch.nan)])
    np.save(tmp_path / "x.npy", rows.numpy())
    with pytest.raises(DataError, match="finite"):
        sgfi.look_all(loaded, tmp_path / "x.npy", "2:1", tmp_path / "out", **QUIET)  # type: ignore[arg-type]
    np.save(tmp_path / "x.npy", rows[:2].numpy())
    other = photos / "deep" / "b.png"
    looks = sgfi.look_all(loaded, tmp_path / "x.npy", "2:1", tmp_path / "out", other, **QUIET)  # type: ignore[arg-type]
    assert [record["input"] for record in looks.records] == ["x[0]", "x[1]"]
    assert (tmp_path / "out" / "000001.png").read_bytes().startswith(b"\x89PNG")
    assert not looks.scores("swapped")["2:1"].isnan().any()


def test_what_cannot_be_done_is_refused_before_anything_is_written(
    loaded: LoadedModel, photos: Path, tmp_path: Path
) -> None:
    for query, changes, kind, words in (
        ("2:99", {}, QueryError, "99"),
        ("2:1", {"form": ".bmp"}, DataError, ".png"),
        ("2:1", {"out": photos / "looks"}, StoreError, "outside"),
        ("2:1", {"out": photos / "a.png"}, StoreError, "is a file|outside"),
        ("2:1", {"data": tmp_path / "nowhere"}, DataError, "nothing at"),
        ("2:1", {"model": loaded.model}, DataError, "how it is fed"),
    ):
        given = {"model": loaded, "data": photos, "out": tmp_path / "out", **QUIET, **changes}
        with pytest.raises(kind, match=words):
            sgfi.look_all(query=query, **given)  # type: ignore[arg-type]
        assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(loaded: LoadedModel, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    looked(loaded, photos, out)
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for query, changes in (("2:2", {}), ("2:1", {"ridge": 0.5}), ("2:1", {"other": photos / "a.png"})):
        with pytest.raises(StoreError, match="same model, queries and settings"):
            sgfi.look_all(loaded, photos, query, out, form=".safetensors", **{**QUIET, **changes})  # type: ignore[arg-type]
    lock = PathLock(out)
    with pytest.raises(StoreError, match="another run"):
        sgfi.look_all(loaded, photos, "2:1", out, form=".safetensors", **QUIET)  # type: ignore[arg-type]
    lock.release()
    with pytest.raises(StoreError, match="other files"):
        sgfi.look_all(loaded, photos, "2:1", tmp_path, form=".safetensors", **QUIET)  # type: ignore[arg-type]
    assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}


def test_a_folder_without_a_readable_input_is_an_error(loaded: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"not a picture")
    with pytest.warns(SkippedFile), pytest.raises(DataError, match="none of them readable"):
        sgfi.look_all(loaded, tmp_path / "photos", "2:1", tmp_path / "out", **QUIET)  # type: ignore[arg-type]


def test_a_model_with_a_hook_is_another_model_and_other_looks_change_nothing(
    loaded: LoadedModel, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    looked(loaded, photos, out)
    name = next(name for name, own in loaded.model.named_modules() if isinstance(own, torch.nn.Conv2d))
    sgfi.look(loaded, loaded.example[:1], name)
    assert looked(loaded, photos, out).resumed == 3
    handle = loaded.model.get_submodule(name).register_forward_hook(lambda module, given, result: result * 0)
    try:
        with pytest.raises(StoreError, match="go on with"):
            sgfi.look_all(loaded, photos, "2:1", out, form=".safetensors", **QUIET)  # type: ignore[arg-type]
    finally:
        handle.remove()
    assert looked(loaded, photos, out).resumed == 3

"""Specs become frozen models; weights files are read without running code."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import sgfi
from sgfi.errors import DataError, SgfiError
from sgfi.inputs.models import load_model, parse_spec, reload_model

BUILDER = """
import torch
INPUT_SHAPE = (3, 8, 8)
MEAN, STD = (0.5,) * 3, (0.25,) * 3
def build():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.5))
def number():
    return 3
def vector():
    return torch.nn.Linear(5, 2)
"""


@pytest.fixture
def builder(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(BUILDER)
    return path


def test_file_model_is_frozen_and_fed_as_its_file_says(builder: Path) -> None:
    loaded = load_model(f"{builder}:build")
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.example.shape == (2, 3, 8, 8)
    assert loaded.preprocessing is not None and loaded.preprocessing.mean == (0.5,) * 3


def test_random_weights_repeat_and_leave_the_callers_random_state_alone(builder: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, second = (load_model(f"{builder}:build").model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.rand(1), expected)


def test_a_model_is_rebuilt_from_its_record(builder: Path) -> None:
    loaded = load_model(f"{builder}:build", size=12)
    again = reload_model(loaded.provenance)
    assert again.input_shape == (3, 12, 12) and again.preprocessing == loaded.preprocessing


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("resnet18", "colon"),
        ("torchvison:resnet18", "torchvision"),
        ("torchvision:resnet19", "resnet18"),
        ("timm:resnet5o", "resnet50"),
        ("pip:efficientnet_lite9", "efficientnet_lite0"),
        ("nowhere.py:build", "nothing at"),
    ],
)
def test_unknown_models_are_errors_with_a_hint(spec: str, hint: str) -> None:
    with pytest.raises(DataError, match=hint):
        load_model(spec, "none")


def test_functions_that_build_no_model_are_refused(builder: Path) -> None:
    with pytest.raises(DataError, match="int"):
        load_model(f"{builder}:number")
    with pytest.raises(DataError, match="build"):
        load_model(f"{builder}:biuld")
    builder.write_text("1 / 0")
    with pytest.raises(DataError, match="ZeroDivisionError"):
        load_model(f"{builder}:build")


def test_colons_in_windows_like_and_plain_paths() -> None:
    assert parse_spec("a/b.py:build").scheme == "file"
    assert parse_spec("timm:resnet18.a1_in1k").name == "resnet18.a1_in1k"


def test_torchvision_model_with_its_own_preprocessing() -> None:
    loaded = load_model("torchvision:squeezenet1_1", "none", size=64)
    assert loaded.preprocessing is not None
    assert loaded.preprocessing.source == "torchvision weights transform"
    assert loaded.preprocessing.resize == round(256 * 64 / 224)
    assert loaded.model(loaded.example).shape == (2, 1000)


def test_hugging_face_image_model_from_a_folder(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTForImageClassification(ViTConfig(image_size=16, patch_size=8, **shape)).save_pretrained(tmp_path)
    ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(tmp_path)
    loaded = load_model(f"hf:{tmp_path}")
    assert loaded.input_shape == (3, 16, 16)
    assert loaded.model(loaded.example).logits.shape == (2, 2)
    assert "input" in sgfi.capture(loaded.model, loaded.example).nodes


def test_a_module_from_embeddings_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.py"
    path.write_text(
        "import torch\nINPUT_SHAPE = (5, 4)\n"
        "def build():\n    return torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 6))\n"
    )
    loaded = load_model(f"{path}:build", size=7)
    assert loaded.input_shape == (7, 4) and loaded.preprocessing is None
    assert "input" in sgfi.capture(loaded.model, loaded.example).nodes


def test_no_network_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.models, "get_model", refuse)
    with pytest.raises(DataError, match="--weights"):
        load_model("torchvision:resnet18")


def state() -> dict[str, torch.Tensor]:
    return {"0.weight": torch.ones(4, 3, 3, 3), "0.bias": torch.arange(4.0)}


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "wrapped.ckpt"])
def test_weights_files(builder: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".safetensors":
        save_file({k: v.half() for k, v in state().items()}, path)
    elif name == "w.pth":
        torch.save(state(), path)
    else:
        torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state().items()}}, path)
    model = load_model(f"{builder}:build", path).model
    assert torch.equal(model[0].bias, torch.arange(4.0)) and model[0].weight.dtype == torch.float32


class Bomb:
    """Unpickling this would touch a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_pickled_code_is_never_run(builder: Path, tmp_path: Path) -> None:
    fuse = tmp_path / "exploded"
    torch.save({"0.weight": Bomb(fuse)}, tmp_path / "evil.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Bomb(fuse), protocol=2))
    for name in ("evil.pth", "plain.pth"):
        with pytest.raises(DataError):
            load_model(f"{builder}:build", tmp_path / name)
    assert not fuse.exists()


@pytest.mark.parametrize("name", ["cut.safetensors", "cut.pth", "strange.xyz", "absent.pth"])
def test_unreadable_weights(builder: Path, tmp_path: Path, name: str) -> None:
    if not name.startswith("absent"):
        (tmp_path / name).write_bytes(b"\x10\x00nonsense")
    with pytest.raises(DataError):
        load_model(f"{builder}:build", tmp_path / name)


def test_weights_of_another_model(builder: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"0.weight": state()["0.weight"], "extra": torch.ones(1)}, path)
    with pytest.raises(DataError, match="extra"):
        load_model(f"{builder}:build", path)
    assert isinstance(load_model(f"{builder}:build", path, strict=False).model, nn.Module)
    save_file({**state(), "0.weight": torch.ones(4, 3, 5, 5)}, path)
    with pytest.raises(DataError, match="another shape"):
        load_model(f"{builder}:build", path, strict=False)


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(SgfiError, match=r'pip install -e "\.\[vision\]"'):
        load_model("timm:resnet18", "none")


def test_a_gguf_file_is_a_folder_and_a_name() -> None:
    from sgfi.inputs.hubs import folder_and_file

    assert folder_and_file("models/small.gguf") == ("models", "small.gguf")
    assert folder_and_file("gpt2") == ("gpt2", None)


def test_a_packaged_language_model_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from sgfi.language import loading

    monkeypatch.setitem(loading.PACKAGED, "nothing", ("no_such_module_here", "no-such-package"))
    with pytest.raises(DataError, match="pip install no-such-package"):
        load_model("pip:nothing")

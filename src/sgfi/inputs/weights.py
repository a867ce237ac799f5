"""State dicts from files, without ever running pickled code."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from sgfi.errors import DataError

DEEPEST = 4
"""Wrappers around a state dict: a file may contain itself."""
TOWERS = ("visual.", "vision_model.", "model.visual.", "model.vision_model.")
"""Where files of two towers (CLIP, SigLIP) keep the one for pictures."""
WRAPPERS = ("state_dict", "model_state_dict", "model", "model_state", "params")


def read_state(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name from a .safetensors file, or a .pth / .pt file read with ``weights_only=True``."""
    if not path.is_file():
        raise DataError("a weights file", f"nothing at {path}", "Check the path given to --weights.")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in (".pth", ".pt", ".bin", ".ckpt"):
        return _unwrap(_read_pickle(path), path)
    raise DataError(
        "weights as .safetensors, .pth, .pt, .bin or .ckpt",
        f"{path.name}",
        "Save the state dict with safetensors.torch.save_file or torch.save.",
    )


def load_state(model: nn.Module, path: Path, *, strict: bool = True) -> None:
    """Put the tensors of ``path`` into ``model`` (half precision is widened to the model's own type)."""
    state = {name.removeprefix("module."): value for name, value in read_state(path).items()}
    own = model.state_dict()
    state = _tower(state, own)
    misshapen = [n for n in own if n in state and own[n].shape != state[n].shape]
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    missing = [n for n in missing if not n.endswith("num_batches_tracked")]
    if misshapen or (strict and (missing or unknown)):
        raise DataError(
            f"weights whose {len(own)} names and shapes fit the model",
            f"{path.name} with {len(missing)} missing {missing[:3]}, {len(unknown)} unknown "
            f"{unknown[:3]} "
            f"and {len(misshapen)} of another shape {misshapen[:3]}",
            "Check that the file belongs to this model; --partial-weights accepts missing and unknown names.",
        )
    complex_ = [n for n in own if n in state and state[n].is_complex() and not own[n].is_complex()]
    if complex_:
        raise DataError("real weights", f"complex {complex_[:3]} in {path.name}", "Check the file.")
    model.load_state_dict(state, strict=False)


def _tower(state: dict[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The part of a file of several towers that belongs to a model of pictures."""
    for prefix in TOWERS:
        if all(prefix + name in state for name in own):
            return {name: state[prefix + name] for name in own}
    return state


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise DataError("a readable safetensors file", f"{path.name}: {error}", "Fetch the file again.") from error


def _read_pickle(path: Path) -> object:
    _check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DataError(
            "a file holding only tensors",
            f"{path.name}, which torch refuses to read without running code from it",
            "Load it where you trust it and save model.state_dict() with safetensors.torch.save_file.",
        ) from error
    except Exception as error:  # a broken pickle can raise nearly anything
        got = f"{path.name}: {type(error).__name__} {str(error)[:200]}"
        raise DataError("a readable weights file", got, "Fetch the file again.") from error


def _check_archive(path: Path) -> None:
    """torch writes its archives uncompressed: one that grows when it is read is not torch's."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # an older format, or broken: torch will tell
    if unpacked > 2 * path.stat().st_size + (1 << 20):
        raise DataError(
            "an archive of tensors as torch writes it",
            f"{path.name} that unpacks to {unpacked} bytes",
            "Save it again.",
        )


def _unwrap(state: object, path: Path) -> dict[str, torch.Tensor]:
    """The state dict itself, or the one inside a training checkpoint."""
    for _ in range(DEEPEST):
        if not isinstance(state, Mapping):
            break
        if state and all(isinstance(v, torch.Tensor) for v in state.values()):
            return _checked(state, path)
        inner = next((state[key] for key in WRAPPERS if isinstance(state.get(key), Mapping)), None)
        if inner is None:
            break
        state = inner
    raise DataError(
        "a state dict (names to tensors)", f"{type(state).__name__} in {path.name}", "Save model.state_dict() instead."
    )


def _checked(state: Mapping, path: Path) -> dict[str, torch.Tensor]:
    for name, value in state.items():
        dense = value.layout == torch.strided and not value.is_meta and not value.is_quantized
        if not isinstance(name, str) or not dense:
            got = f"{name!r}: {value.layout}{' on meta' if value.is_meta else ''} in {path.name}"
            raise DataError("names (text) and dense tensors with data", got[:200], "Save model.state_dict() instead.")
    return dict(state)

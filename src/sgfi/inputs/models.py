"""Models by name: ``torchvision:resnet18``, ``timm:...``, ``hf:...``, ``open_clip:...``, ``file.py:build``, ...

A spec is one string, so that a command line, an experiment file and a manifest can all name a model the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from sgfi.errors import DataError, did_you_mean
from sgfi.inputs.libraries import SCHEMES, ModelSpec
from sgfi.inputs.loaded import LoadedModel, Provenance
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.resizing import resize_model
from sgfi.inputs.weights import load_state

LIBRARY_WEIGHTS = ("pretrained", "none")
"""Words that may stand for a weights file."""


def load_model(
    spec: str, weights: str | Path | None = None, *, size: int | None = None, strict: bool = True
) -> LoadedModel:
    """Build the model a spec names.

    ``weights``: None or ``"pretrained"`` for the library's own, ``"none"`` for random ones, else a file. ``size``:
    another square input size in pixels (or another token count for text models).
    """
    chosen = "pretrained" if weights is None else str(weights)
    parsed = parse_spec(spec, chosen)
    with _fixed_seed():
        loaded = SCHEMES[parsed.scheme](parsed)
    if chosen not in LIBRARY_WEIGHTS:
        load_state(loaded.model, Path(chosen), strict=strict)
    loaded.model.eval().requires_grad_(False)
    return replace(_resized(loaded, size), spec=spec, weights=chosen, strict=strict)


def reload_model(record: Provenance) -> LoadedModel:
    """The model of :attr:`LoadedModel.provenance`.

    Files are named as they were when the maps were made, so from another folder they must be named again.
    """
    check_record(record)
    given = record.get("preprocessing")
    prepared = None if given is None else Preprocessing.from_dict(given)
    shape = tuple(record["input_shape"])
    loaded = load_model(record["spec"], record["weights"], strict=record["strict"])
    if prepared is not None and shape[-2:] != loaded.input_shape[-2:]:
        resize_model(loaded.model, prepared.size)
    return replace(loaded, input_shape=shape, preprocessing=prepared)


def check_record(record: Provenance) -> None:
    """A record is whole, and the files that it names are there."""
    kinds: dict[str, type] = {"spec": str, "weights": str, "strict": bool, "input_shape": list}
    odd = [key for key, kind in kinds.items() if not isinstance(record.get(key), kind)]
    given = record.get("preprocessing")
    if odd or not isinstance(given, (dict, type(None))):
        got = f"a record without {odd[0]!r}" if odd else "a record whose preprocessing is no mapping"
        raise DataError("a record of how the model was built", got, "Name the model with --model.")
    _check_files(record["spec"], record["weights"])


def describe_weights(record: Provenance) -> str:
    """Where the weights came from; whether a user's own file builds trained ones is not known."""
    weights = str(record.get("weights", "?"))
    if weights in LIBRARY_WEIGHTS and _python_file(str(record.get("spec", ""))) is not None:
        return "as built by the file"
    return {"none": "random"}.get(weights, weights)


def _check_files(spec: str, weights: str) -> None:
    own = None if weights in LIBRARY_WEIGHTS else Path(weights)
    for what, file, option in (
        ("Python file that builds the model", _python_file(spec), "--model path/to/net.py:build"),
        ("weights file", own, "--weights path/to/file"),
    ):
        if file is not None and not file.is_file():
            got = f"nothing at {file} from this folder"
            raise DataError(f"the {what} of these maps", got, f"Name it with {option}.")


def _python_file(spec: str) -> Path | None:
    """The file of ``path/to/file.py:function``; None for models of a library."""
    head, _, function = spec.rpartition(":")
    return Path(head) if head.endswith(".py") and function else None


def parse_spec(spec: str, weights: str = "pretrained") -> ModelSpec:
    """``scheme:name`` or ``path/to/file.py:function``."""
    if _python_file(spec) is not None:
        return ModelSpec("file", spec, weights)
    scheme, colon, name = spec.partition(":")
    if colon and name and scheme in SCHEMES and scheme != "file":
        return ModelSpec(scheme, name, weights)
    raise DataError(
        "a model like torchvision:resnet18, timm:NAME, hf:NAME, open_clip:NAME, smp:NAME, diffusers:FOLDER, "
        "pip:efficientnet_lite0 or path/to/file.py:build",
        repr(spec),
        did_you_mean(scheme, SCHEMES) or "Put the library's name and a colon before the model's name.",
    )


def _resized(loaded: LoadedModel, size: int | None) -> LoadedModel:
    if size is None:
        return loaded
    if size < 1:
        raise DataError("a positive input size", str(size), "Give a number of pixels or tokens.")
    if loaded.preprocessing is not None:
        prepared = loaded.preprocessing.at(size)
        if prepared.size != loaded.preprocessing.size:
            resize_model(loaded.model, prepared.size)
        return replace(loaded, preprocessing=prepared, input_shape=prepared.input_shape)
    return replace(loaded, input_shape=(size, *loaded.input_shape[1:]))


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Random weights are the same every time, and the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield

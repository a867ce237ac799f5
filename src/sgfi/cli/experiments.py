"""``sgfi experiment list | show | run | compare | page``: the paper's tables and controls, each from one small file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sgfi.cli import options
from sgfi.cli.decisions import typed_command
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.errors import DataError, StoreError
from sgfi.experiments import Experiment, Result, available, compare, declare, overlay, read_result, run
from sgfi.experiments.results import FILE, markdown
from sgfi.settings import read_settings

Name = Annotated[str, typer.Argument(help="A name that sgfi experiment list shows, or a .json file of your own.")]
With = Annotated[
    list[Path] | None, typer.Option("--with", help="JSON file of changes laid over the experiment; repeat it.")
]
Set = Annotated[list[str] | None, typer.Option("--set", help="One setting, such as calibration.ridge=0.03; repeat it.")]
Spec = Annotated[str | None, typer.Option("--model", help="Model of every variant that names none of its own.")]
Data = Annotated[
    Path | None, typer.Option(help="Images or text to calibrate on, and without --held-out to evaluate on.")
]
HeldOut = Annotated[Path | None, typer.Option(help="Images or text to evaluate on. Default: others of --data.")]
Fit = Annotated[int | None, typer.Option("--fit", help="Calibration inputs.")]
Evaluate = Annotated[int | None, typer.Option("--evaluate", help="Evaluation inputs.")]


@command
def list_() -> None:
    """The shipped experiments."""
    known = available()
    width = max(map(len, known))
    for name, title in known.items():
        typer.echo(f"{name:{width}}  {title}")


@command
def show(
    name: Name,
    with_: With = None,
    set_: Set = None,
    model: Spec = None,
    weights: options.Weights = None,
    size: options.Size = None,
    data: Data = None,
    held_out: HeldOut = None,
    fit: Fit = None,
    evaluate: Evaluate = None,
) -> None:
    """The resolved experiment as it would run.

    Examples:

      sgfi experiment show operators

      sgfi experiment show ridge --model torchvision:resnet18 --set calibration.children=online
    """
    experiment = _resolved(name, with_, set_, _given(model, weights, size, data, held_out, fit, evaluate))
    typer.echo(json.dumps(experiment.as_dict(), indent=1))


@command
def run_(
    name: Name,
    out: Annotated[Path | None, typer.Option(help="Folder for result.json, result.md and figure.png.")] = None,
    work: Annotated[
        Path, typer.Option(help="Folder that keeps maps and finished units: what makes a run resumable.")
    ] = Path("experiments-work"),
    with_: With = None,
    set_: Set = None,
    model: Spec = None,
    weights: options.Weights = None,
    size: options.Size = None,
    data: Data = None,
    held_out: HeldOut = None,
    fit: Fit = None,
    evaluate: Evaluate = None,
    variant: Annotated[list[str] | None, typer.Option(help="Only this variant; repeat it.")] = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Calibrate, measure and write a table with its provenance. After an interruption, the same command resumes.

    Examples:

      sgfi experiment run topology --model torchvision:resnet18 --data photos/ --fit 1024 --evaluate 256

      sgfi experiment run ridge --model pip:efficientnet_lite0 --size 96 --data photos/ --out results/ridge
    """
    experiment = _resolved(name, with_, set_, _given(model, weights, size, data, held_out, fit, evaluate))
    folder = out if out is not None else Path("results") / experiment.name
    _check_folder(folder, experiment, force)
    say(json.dumps(experiment.as_dict(), indent=1), quiet)
    try:
        result = run(
            experiment,
            work,
            only=variant,
            command=typed_command(),
            progress=not quiet,
            say=lambda text: say(text, quiet),
        )
    except KeyboardInterrupt as error:
        raise Interrupted(f"Interrupted. Finished work is kept in {work}; run the same command to resume.") from error
    _write(result, folder)
    typer.echo(markdown(result))
    typer.echo(str(folder))


@command
def compare_(
    first: Annotated[Path, typer.Argument(help="Folder or result.json of one run.")],
    second: Annotated[Path, typer.Argument(help="Folder or result.json of another.")],
) -> None:
    """Numbers that two results share, with differences, paired over images where both saw the same ones."""
    typer.echo(compare(read_result(first), read_result(second)))


@command
def page(
    results: Annotated[Path, typer.Argument(help="Folder with one result folder each.")],
    out: Annotated[Path, typer.Option(help="Markdown file to write.")] = Path("results.md"),
    preface: Annotated[Path | None, typer.Option(help="Markdown to stand at the head of the page.")] = None,
    force: options.Force = False,
) -> None:
    """One page of all results, beside the paper's numbers, with every claim judged; draws tables and figures again."""
    from sgfi.experiments.page import results_page

    options.check_out(out, force, (".md",))
    folders = sorted(file.parent for file in results.glob(f"*/{FILE}"))
    if not folders:
        raise DataError("folders with a result.json", f"none in {results}", "Run sgfi experiment run first.")
    by_folder = {folder.resolve(): read_result(folder) for folder in folders}
    for folder, result in by_folder.items():
        _show(result, folder)
    head = preface.read_text(encoding="utf-8") if preface is not None else ""
    out.write_text(results_page(by_folder, out.resolve().parent, typed_command(), head), encoding="utf-8")
    typer.echo(str(out))


def _given(
    model: str | None,
    weights: str | None,
    size: int | None,
    data: Path | None,
    held_out: Path | None,
    fit: int | None,
    evaluate: int | None,
) -> dict[str, Any]:
    """The options as changes of the file."""
    changes: dict[str, dict[str, Any]] = {
        "model": {"spec": model, "weights": weights, "size": size},
        "data": {
            "calibration": data and str(data),
            "evaluation": held_out and str(held_out),
            "calibration_count": fit,
            "evaluation_count": evaluate,
        },
    }
    return {part: {key: value for key, value in given.items() if value is not None} for part, given in changes.items()}


def _resolved(name: str, with_: list[Path] | None, set_: list[str] | None, given: dict[str, Any]) -> Experiment:
    changes = [read_settings(path) for path in with_ or []]
    return declare(name, *changes, given, *map(_setting, set_ or []))


def _setting(text: str) -> dict[str, Any]:
    """``a.b=value`` as nested settings; the value is JSON, or a plain word."""
    address, equals, value = text.partition("=")
    if not equals or not address:
        raise DataError("a setting such as calibration.ridge=0.03", repr(text), "Write section.key=value.")
    try:
        setting: Any = json.loads(value)
    except ValueError:
        setting = value
    for key in reversed(address.split(".")):
        setting = {key: setting}
    return overlay({}, setting)


def _check_folder(folder: Path, experiment: Experiment, force: bool) -> None:
    """Results may replace the same experiment's, and with ``force`` another's."""
    file = folder / FILE
    if folder.exists() and not file.is_file() and any(folder.iterdir()):
        raise StoreError("a free folder or one with a result", f"{folder}", "Choose another with --out.")
    if file.is_file() and not force and read_result(file).name != experiment.name:
        raise StoreError("a folder of the same experiment", f"{folder}", "Choose another --out or pass --force.")


def _write(result: Result, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / (FILE + ".draft")
    draft.write_text(json.dumps(result.as_dict(), separators=(",", ":")) + "\n", encoding="utf-8")
    draft.replace(folder / FILE)
    _show(result, folder)


def _show(result: Result, folder: Path) -> None:
    """Table and figure, from the numbers alone."""
    from sgfi.figures import save_figure
    from sgfi.figures.experiments import experiment_figure, panels_of

    (folder / "result.md").write_text(markdown(result), encoding="utf-8")
    if panels_of(result):
        save_figure(experiment_figure(result), folder / "figure.png", overwrite=True)

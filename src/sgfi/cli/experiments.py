"""``sgfi experiment list | show | run | compare | index | page | fill | commits``: the paper's tables, from files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sgfi.cli import options
from sgfi.cli.decisions import typed_command
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.errors import DataError, StoreError
from sgfi.experiments import Experiment, Result, available, compare, declare, read_result, run
from sgfi.experiments.derived import with_reductions
from sgfi.experiments.provenance import with_known_commits
from sgfi.experiments.results import FILE, markdown
from sgfi.inversion import Query
from sgfi.settings import check_keys, read_settings
from sgfi.storage import write_text

NAME = "A name that sgfi experiment list shows, or a .json file of your own"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is laid over the file of an experiment."""

    with_: Annotated[
        list[Path] | None, typer.Option("--with", help="JSON file of changes laid over the experiment; repeat it.")
    ] = None
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, such as calibration.ridge=0.03; repeat it.")
    ] = None
    model: Annotated[str | None, typer.Option("--model", help="Model of every variant that names none of its own.")] = (
        None
    )
    weights: options.Weights = None
    size: options.Size = None
    data: Annotated[
        Path | None, typer.Option(help="Images or text to calibrate on, and without --held-out to evaluate on.")
    ] = None
    held_out: Annotated[Path | None, typer.Option(help="Images or text to evaluate on. Default: others of --data.")] = (
        None
    )
    fit: Annotated[int | None, typer.Option("--fit", min=1, help="Calibration inputs.")] = None
    evaluate: Annotated[int | None, typer.Option("--evaluate", min=1, help="Evaluation inputs.")] = None

    def over(self, name: str) -> Experiment:
        """The experiment of that name under these changes."""
        paths = {"calibration": self.data and str(self.data), "evaluation": self.held_out and str(self.held_out)}
        sections: dict[str, dict[str, Any]] = {
            "model": {"spec": self.model, "weights": self.weights, "size": self.size},
            "data": {**paths, "calibration_count": self.fit, "evaluation_count": self.evaluate},
        }
        given = {part: {k: v for k, v in own.items() if v is not None} for part, own in sections.items()}
        if self.data is not None:  # then a file's own evaluation data do not count
            given["data"]["evaluation"] = paths["evaluation"]
        files = map(read_settings, self.with_ or [])
        return declare(name, *files, given, settings=[_setting(text) for text in self.set_ or []])


@dataclass(frozen=True, kw_only=True)
class Declared(Changes):
    """One experiment."""

    name: Annotated[str, typer.Argument(help=f"{NAME}.")]

    def resolved(self) -> Experiment:
        return self.over(self.name)


@command
def list_() -> None:
    """The shipped experiments."""
    known = available()
    width = max(map(len, known))
    for name, title in known.items():
        typer.echo(f"{name:{width}}  {title}")


@command
def show(declared: Declared) -> None:
    """The resolved experiment as it would run.

    Examples:

      sgfi experiment show operators
      sgfi experiment show ridge --model torchvision:resnet18 --set calibration.children=online
    """
    typer.echo(json.dumps(declared.resolved().as_dict(), indent=1))


@command
def run_(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"{NAME}; several run in turn.")],
    changes: Changes,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for result.json, result.md and figure.png; of several experiments, for a folder of each. "
            "Default: results/NAME."
        ),
    ] = None,
    work: Annotated[
        Path, typer.Option(help="Folder that keeps maps and finished units: what makes a run resumable.")
    ] = Path("experiments-work"),
    variant: Annotated[list[str] | None, typer.Option(help="Only this variant; repeat it.")] = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Calibrate, measure and write a table with its provenance. After an interruption, the same command resumes.

    Several experiments share the families in --work. All of them are checked before the first begins.

    Examples:

      sgfi experiment run topology --model torchvision:resnet18 --data photos/ --fit 1024 --evaluate 256
      sgfi experiment run ridge --model pip:efficientnet_lite0 --size 96 --data photos/ --out results/ridge
      sgfi experiment run language language-seeds language-layers language-controls language-mlp --data wikitext2.txt
    """
    experiments = [changes.over(name) for name in names]
    folders = _folders(out, experiments)
    for experiment, folder in zip(experiments, folders, strict=True):
        _check_folder(folder, experiment, force)
        check_keys(dict.fromkeys(variant or ()), experiment.variants, f"variants of {experiment.name}")
    for experiment, folder in zip(experiments, folders, strict=True):
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
            kept = f"Interrupted. Finished work is kept in {work}; run the same command to resume."
            raise Interrupted(kept) from error
        _write(result, folder)
        typer.echo(markdown(with_reductions(result)))
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
    from sgfi.experiments.quotations import quoted, without_marks

    options.check_out(out, force, (".md",))
    by_folder = _results(results)
    for folder, result in by_folder.items():
        _show(result, folder)
    head = quoted(preface.read_text(encoding="utf-8"), preface.parent) if preface is not None else ""
    if preface is not None:
        write_text(preface, head)
    write_text(out, results_page(by_folder, out.resolve().parent, typed_command(), without_marks(head)))
    typer.echo(str(out))


@command
def index(
    results: Annotated[Path, typer.Argument(help="Folder with one result folder each.")],
    out: Annotated[Path, typer.Option(help="Markdown file to write.")] = Path("paper-index.md"),
    force: options.Force = False,
) -> None:
    """Every table and figure of the paper with its command and what has been run, read from result files."""
    from sgfi.experiments.paper_index import index_page

    options.check_out(out, force, (".md",))
    write_text(out, index_page(_results(results), out.resolve().parent, typed_command()))
    typer.echo(str(out))


@command
def commits(
    paths: Annotated[list[Path], typer.Argument(help="Result files, or folders searched for .json files.")],
) -> None:
    """Results name only commits that can be checked out: any other becomes "not in this history"."""
    changed = 0
    for path in paths:
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            changed += _settle(file)
    typer.echo(f"{changed} files changed")


@command
def pictures(
    declared: Declared,
    query: Annotated[str, typer.Argument(help="Such as blocks.4.1:17 or blocks.4.1@1,2.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("pictures.png"),
    work: Annotated[Path, typer.Option(help="Folder that keeps maps and decoders, as for run.")] = Path(
        "experiments-work"
    ),
    number: Annotated[int, typer.Option("--input", help="Which evaluated input, from 0.")] = 0,
    force: options.Force = False,
) -> None:
    """One query of an answers experiment drawn by each of its methods, with the share of the feature it removes."""
    from sgfi.experiments.exhibits import exhibit
    from sgfi.figures import save_figure
    from sgfi.figures.methods import methods_figure

    options.check_out(out, force, (".png",))
    shown = exhibit(declared.resolved(), work, Query.parse(query), number)
    save_figure(methods_figure(shown), out, overwrite=force)
    typer.echo(str(out))


@command
def fill(page: Annotated[Path, typer.Argument(help="Markdown page with marks that name result folders.")]) -> None:
    """Put tables of answers results, and single numbers of any result, where the marks of a page say.

    Tables go between <!-- answers: folder --> and <!-- /answers -->; a number stands before
    <!-- folder measure/variant/row/score -->. Folders are relative to the page.
    """
    from sgfi.experiments.answer_tables import MARKS, filled
    from sgfi.experiments.quotations import QUOTED, quoted

    text = page.read_text(encoding="utf-8")
    if MARKS.search(text) is None and QUOTED.search(text) is None:
        todo = "Write <!-- answers: folder --> and <!-- /answers --> where the tables go."
        raise DataError("a page with marks", f"none in {page}", todo)
    page.write_text(quoted(filled(text, page.parent), page.parent), encoding="utf-8")
    typer.echo(str(page))


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
    return setting


def _results(folder: Path) -> dict[Path, Result]:
    """Every result in the folder, with commits that can be checked out."""
    folders = sorted(file.parent for file in folder.glob(f"*/{FILE}"))
    if not folders:
        raise DataError("folders with a result.json", f"none in {folder}", "Run sgfi experiment run first.")
    for each in folders:
        _settle(each / FILE)
    return {each.resolve(): read_result(each) for each in folders}


def _settle(file: Path) -> bool:
    """Whether a result named a commit that is not in the history of its folder; then it no longer does."""
    text = file.read_text(encoding="utf-8")
    settled = with_known_commits(text, file.resolve().parent)
    if settled == text:
        return False
    write_text(file, settled)
    return True


def _folders(out: Path | None, experiments: list[Experiment]) -> list[Path]:
    """Where each result goes: one alone into ``out`` itself, several into a folder of each there."""
    if out is not None and len(experiments) == 1:
        return [out]
    names = [experiment.name for experiment in experiments]
    if len(set(names)) < len(names):
        raise DataError("experiments of different names", ", ".join(names), "Run one of them by itself.")
    return [(out or Path("results")) / name for name in names]


def _check_folder(folder: Path, experiment: Experiment, force: bool) -> None:
    """Results may replace the same experiment's, and with ``force`` another's."""
    file = folder / FILE
    if folder.exists() and not file.is_file() and any(folder.iterdir()):
        raise StoreError("a free folder or one with a result", f"{folder}", "Choose another with --out.")
    if file.is_file() and not force and read_result(file).name != experiment.name:
        raise StoreError("a folder of the same experiment", f"{folder}", "Choose another --out or pass --force.")


def _write(result: Result, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, json.dumps(result.as_dict(), separators=(",", ":")) + "\n")
    _show(result, folder)


def _show(result: Result, folder: Path) -> None:
    """Table and figure, from the numbers alone."""
    from sgfi.figures import save_figure
    from sgfi.figures.experiments import experiment_figure, panels_of

    write_text(folder / "result.md", markdown(with_reductions(result)))
    if panels_of(result):
        save_figure(experiment_figure(result), folder / "figure.png", overwrite=True)

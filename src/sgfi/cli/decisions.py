"""``sgfi decide``: feature groups of a decision, inverted and, independently, intervened on."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer

from sgfi.cli import options
from sgfi.cli.loading import OpenFamily
from sgfi.cli.outcomes import command, say
from sgfi.decisions import DecisionSettings, Gate, Study, activation_means, gate, load_means, save_means, study
from sgfi.decisions.gates import curve_summary
from sgfi.decisions.means import FILE
from sgfi.decisions.readout import decide as read_decision
from sgfi.errors import DataError
from sgfi.experiments.provenance import describe_code, provenance
from sgfi.inputs.data import class_numbers, open_data
from sgfi.settings import JsonSettings, portable, read_settings
from sgfi.storage import write_text

AnySettings = TypeVar("AnySettings", bound=JsonSettings)
OutFolder = Annotated[Path, typer.Option(help="Folder for numbers, tables and figures; must not exist yet.")]
DATA = "Held-out inputs: a folder of images, an image or an array."
RESULTS = "results.json"
UNRECORDED = "older than the record of commit, code and machine"
"""What stands for the provenance of results that were written without."""
Count = Annotated[int, typer.Option(min=1, help="Use this many inputs.")]


@dataclass(frozen=True, kw_only=True)
class StudyOptions(options.EstimatorOptions):
    """What ``sgfi decide`` and ``sgfi coordinates`` share."""

    data: Annotated[Path, typer.Argument(help=DATA)]
    calibration: Annotated[
        Path | None,
        typer.Option(
            help=f"Data the maps were fitted on: collects channel means into {FILE} when it is not there yet. "
            "With a model in place of maps: any inputs to take the means from."
        ),
    ] = None
    experiment: Annotated[
        Path | None, typer.Option(help="JSON file that declares the settings; options given here win over it.")
    ] = None
    depth: Annotated[list[str] | None, typer.Option(help="A tensor to study; repeat it, shallow to deep.")] = None
    correct: Annotated[
        bool,
        typer.Option(
            help="Only images whose folder has the number of the predicted class as its name, or its place in order."
        ),
    ] = False
    show: Annotated[
        Path | None, typer.Option(help="Image or folder of images for the figures; default: the first inputs studied.")
    ] = None
    batch_size: options.BatchSize = 16
    force: options.Force = False
    quiet: options.Quiet = False

    @property
    def model_name(self) -> str:
        """The model's spec without the folders of a file of the user's own."""
        return Path(self.opened.loaded.spec).name

    def settings(self, kind: type[AnySettings], **given: Any) -> AnySettings:
        """What the file declares; options given on the command line win over it."""
        own = {} if self.experiment is None else read_settings(self.experiment)
        given = {"depths": self.depth, **given}
        return kind.from_dict({**own, **{name: value for name, value in given.items() if value not in (None, [])}})

    def means(self, depths: Sequence[str]) -> dict[str, torch.Tensor]:
        """The means kept beside the maps; collected from the calibration data where there are none.

        A natural inverse has no folder to keep them in: they are collected every time, at ``depths`` too.
        """
        opened = self.opened
        if not isinstance(opened, OpenFamily):
            return self._fresh_means(depths)
        folder, fingerprint = Path(self.maps), opened.family.graph.fingerprint
        if self.calibration is None or (folder / FILE).is_file():
            return load_means(folder, fingerprint)
        batches = open_data(self.calibration, opened.loaded, self.batch_size, opened.family.samples)
        if opened.fitted_on is not None and opened.fitted_on != batches.describe()["digest"]:
            say("warning: these are not the inputs the maps were fitted on; the means are theirs", self.quiet)
        means = activation_means(opened.family.plan, batches)
        save_means(means, folder, fingerprint)
        say(f"channel means of {opened.family.samples} inputs kept in {folder / FILE}", self.quiet)
        return means

    def _fresh_means(self, depths: Sequence[str]) -> dict[str, torch.Tensor]:
        estimator, loaded = self.opened.estimator, self.opened.loaded
        if self.calibration is None:
            raise DataError(
                "inputs to take the channel means from",
                f"the model {loaded.spec} without any",
                "Name them with --calibration DATA.",
            )
        nodes = dict.fromkeys(["input", *estimator.targets, *map(estimator.graph.nodes.canonical, depths)])
        return activation_means(estimator, open_data(self.calibration, loaded, self.batch_size), list(nodes))

    def inputs(self, count: int, output: str | None) -> tuple[torch.Tensor, list[str]]:
        """The first ``count`` inputs (N, ...) in the order of the data; with ``correct`` those the model gets right."""
        batches = open_data(self.data, self.opened.loaded, self.batch_size, None if self.correct else count)
        if not self.correct:
            return torch.cat(list(batches))[:count], batches.names[:count]
        labels = class_numbers(getattr(batches, "paths", []))
        kept: list[tuple[torch.Tensor, str]] = []
        for number, x in enumerate(batches):
            tops = read_decision(self.opened.estimator.graph, x, output).top.tolist()
            for index, top in enumerate(tops, number * batches.batch_size):
                if top == labels[index]:
                    kept.append((x[index % batches.batch_size], batches.names[index]))
            if len(kept) >= count:
                break
        if len(kept) < count:
            got = f"{len(kept)} of {len(labels)}"
            raise DataError(f"{count} correctly classified images", got, "Give more or a smaller --count.")
        return torch.stack([x for x, _ in kept[:count]]), [name for _, name in kept[:count]]

    def shown(self, x: torch.Tensor, names: list[str]) -> tuple[torch.Tensor, list[str]]:
        """Up to four inputs for the figures (N, ...) and their names."""
        if self.show is None:
            return x[:4], names[:4]
        batches = open_data(self.show, self.opened.loaded, 4, 4)
        return next(iter(batches)), batches.names

    def write(self, folder: Path, record: dict[str, Any], name: str, tables: str) -> None:
        """results.json and a file of tables, both with the command and the code."""
        folder.mkdir(parents=True, exist_ok=True)
        head = {"maps": self.maps, "data": str(self.data), "model": self.model_name}
        write_results(folder, {"provenance": provenance(typed_command()), **head, **record}, name, tables)


@dataclass(frozen=True, kw_only=True)
class DecideOptions(StudyOptions):
    """Those of a study, or a stored study, which needs neither maps nor data."""

    maps: options.MapsOrModel = ""
    data: Annotated[Path | None, typer.Argument(help=DATA)] = None  # type: ignore[assignment]
    again: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder of a finished study: writes its summaries again, by today's code. No model is run.",
        ),
    ] = None


@command
def decide(
    asked: DecideOptions,
    out: OutFolder = Path("decisions"),
    sizes: Annotated[str | None, typer.Option(help="Group sizes, such as 1,4,8,16.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random groups per image.")] = None,
    count: Count = 16,
) -> None:
    """Rank channels by their part in the decision, invert the groups, and intervene on the original representation.

    Writes results.json, gate.md and atlas.png. Replacement by calibration means is the primary protocol, zero the
    check; the means are kept beside the maps. No inverse is fed back to the model. With --from: results.json, gate.md
    and effects.png, the plots of the atlas, from the numbers of a finished study alone.

    Examples:

      sgfi decide maps/resnet18 heldout/ --calibration photos/ --count 16
      sgfi decide maps/resnet18 imagenet/val --correct --depth layer2.1.add --depth layer4.1.add --sizes 1,4,8,16
      sgfi decide maps/resnet18 heldout/ --experiment decide.json --show cat.jpg
      sgfi decide --from decisions
    """
    if asked.again is not None:
        return _summarise(asked.again)
    if not asked.maps or asked.data is None:
        raise typer.BadParameter("Give MAPS|MODEL and DATA, or --from FOLDER.")
    folder = options.free_path(out, asked.force)
    settings = asked.settings(DecisionSettings, sizes=_numbers(sizes) if sizes else None, repeats=repeats)
    means = asked.means(settings.depths) if "mean" in settings.protocols else None
    x, names = asked.inputs(count, settings.output)
    started = time.monotonic()
    outcome = study(asked.opened.estimator, x, means, settings, names, progress=not asked.quiet)
    signed = gate(outcome)
    seconds = round(time.monotonic() - started, 1)
    record = outcome.as_dict()
    parts = {"seconds": seconds, **_summaries(outcome, signed), "study": record}
    asked.write(folder, parts, "gate.md", _tables(signed))
    _draw(asked, x, outcome, signed, folder / "atlas.png", names)
    typer.echo(signed.summary())
    say(f"{len(x)} inputs, {record['interventions']} interventions in {seconds} s", asked.quiet)
    typer.echo(str(folder))


def _summarise(folder: Path) -> None:
    """results.json and gate.md with the summaries of the study they hold, and its plots."""
    from sgfi.figures import save_figure
    from sgfi.figures.decisions import effects_figure

    record = read_settings(folder / RESULTS)
    outcome = Study.from_dict(record.get("study") or {})
    signed, run = gate(outcome), record.pop("provenance", None)
    run = run or {"command": record.pop("command", ""), "note": UNRECORDED}
    record = {"provenance": run, **record, "summarised": provenance(typed_command()), **_summaries(outcome, signed)}
    write_results(folder, record, "gate.md", _tables(signed))
    title = f"Effects on the margin: {record.get('model', '')}, {len(outcome.names)} images"
    save_figure(effects_figure(outcome, signed, title=title), folder / "effects.png", overwrite=True)
    typer.echo(signed.summary())
    typer.echo(str(folder))


def _summaries(outcome: Study, signed: Gate) -> dict[str, Any]:
    return {"gate": signed.as_dict(), "deletion": curve_summary(outcome)}


def _tables(signed: Gate) -> str:
    return f"{signed.summary()}\n\n{signed.table()}"


def write_results(folder: Path, record: dict[str, Any], name: str, tables: str) -> None:
    """``results.json``, and the tables under the command and the code that wrote them."""
    write_text(folder / RESULTS, json.dumps(record, separators=(",", ":")) + "\n")
    lines = [_written_by(record["provenance"])]
    if "summarised" in record:
        lines.append(f"Summaries: {_written_by(record['summarised'])}")
    write_text(folder / name, "\n\n".join([*lines, tables]) + "\n")


def _written_by(run: dict[str, Any]) -> str:
    return f"`{run['command']}` ({run.get('note') or describe_code(run)})"


def _draw(asked: StudyOptions, x: torch.Tensor, outcome: Study, signed: Gate, path: Path, names: list[str]) -> None:
    from sgfi.figures import save_figure
    from sgfi.figures.decisions import decision_atlas

    opened, (pictures, shown) = asked.opened, asked.shown(x, names)
    title = f"Decision atlas of {asked.model_name}: {shown[0]}; effects over {len(x)} images"
    figure = decision_atlas(
        opened.estimator, pictures[:1], outcome, signed, title=title, preprocessing=opened.loaded.preprocessing
    )
    save_figure(figure, path, overwrite=True)


def typed_command() -> str:
    """The command as it was typed, for the record, without the folders of a machine; inside a program, its name."""
    words = sys.argv[1:] if sys.argv and Path(sys.argv[0]).name in ("sgfi", "-c", "__main__.py") else []
    return " ".join(["sgfi", *map(_quoted, words)])


def _quoted(word: str) -> str:
    """As a shell reads it back; a folder's variable stays outside the quotes."""
    text = portable(word)
    variable, slash, path = text.partition("/") if "$" in text and text != word else ("", "", text)
    return f"{variable}{slash}{shlex.quote(path) if path or not variable else ''}"


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise DataError("numbers separated by commas", repr(text), "For example 1,4,8,16.") from error

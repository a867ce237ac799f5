"""Looks at a whole folder of inputs: each result written whole, an interrupted run resumed, broken files skipped.

In the folder of results: a file for each input, ``looks.jsonl`` with a line for each (its scores and sentences), and
``settings.json`` with what was asked. An input is done when both its file and its line are there; the digest of its
contents stands in the line, so that a file that has changed is looked at again.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from sgfi.errors import DataError, StoreError, first_line
from sgfi.graph import check_input
from sgfi.graph.raw import raw_bytes
from sgfi.inputs.data import SkippedFile, Source, image_preparation, open_source, read_image, shown
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.models import load_model
from sgfi.inversion import Query
from sgfi.inversion.directions import Directions
from sgfi.natural import NaturalInverse, natural
from sgfi.report.look import (
    NUMBERS,
    PICTURES,
    Look,
    captured_at,
    check_drawable,
    checked_settings,
    input_prior,
    look_through,
    parsed,
    prepared_input,
    targets_of,
    token_names,
    whole_tensors,
)
from sgfi.storage import write_text
from sgfi.storage.files import write_tensors
from sgfi.storage.forward import probes
from sgfi.storage.scratch import Busy, PathLock, is_draft, remove_drafts

SETTINGS, LINES = "settings.json", "looks.jsonl"
Record = dict[str, Any]


@dataclass(frozen=True)
class Looks:
    """What a folder of looks holds."""

    folder: Path
    records: tuple[Record, ...]
    """For each input: ``input``, ``file`` and per query ``query``, ``sentence`` and the scores of the controls."""
    skipped: tuple[str, ...]
    """Names of inputs that could not be read."""
    resumed: int = 0
    """How many were there already."""

    def scores(self, name: str) -> dict[str, Tensor]:
        """Query -> one number per input: ``random``, ``swapped`` or ``neighbours``, NaN where a control has none."""
        scores: dict[str, list[float]] = {}
        for record in self.records:
            for answer in record["queries"]:
                scores.setdefault(answer["query"], []).append(float("nan") if answer[name] is None else answer[name])
        return {query: torch.tensor(values) for query, values in scores.items()}

    def __str__(self) -> str:
        lines = [f"{len(self.records)} inputs in {self.folder}, {self.resumed} of them from an earlier run"]
        lines += [f"{len(self.skipped)} skipped: {', '.join(self.skipped)}"] if self.skipped else []
        counts: dict[str, Counter[str]] = {}
        for record in self.records:
            for answer in record["queries"]:
                counts.setdefault(answer["query"], Counter())[answer["verdict"]] += 1
        for query, own in counts.items():
            lines.append(f"{query}: {', '.join(f'{count} {verdict}' for verdict, count in own.most_common())}")
        return "\n".join(lines)


def look_all(
    model: str | LoadedModel,
    data: str | Path | Source,
    query: str | Query | Sequence[str | Query] | None = None,
    out: str | Path = "looks",
    other: Tensor | str | Path | None = None,
    form: str = ".png",
    progress: bool = True,
    **settings: Any,
) -> Looks:
    """:func:`sgfi.look` at every input of a folder (of an array, of a text), each result a file of ``form`` in ``out``.

    ``form`` is ``".png"``, ``".svg"`` or ``".pdf"``, or ``".safetensors"`` for ``inverse (Q, *input)`` and ``share``. A
    second call goes on where the first one stopped. Inputs that cannot be read are skipped with a warning. ``settings``
    go to :func:`sgfi.natural`; ``prior`` may be among them. Another model needs another ``out``, other queries too.
    """
    queries = parsed(query)
    loaded = load_model(model) if isinstance(model, str) else model
    if not isinstance(loaded, LoadedModel):
        todo = "Pass a model's name, or LoadedModel(name, module, Preprocessing(...), input_shape)."
        raise DataError("a model that says how it is fed", f"a {type(model).__name__}", todo)
    graph = captured_at(loaded, loaded.example[:1], queries)
    prior = settings.pop("prior", None)
    settings = whole_tensors(checked_settings(settings)) if queries is None else checked_settings(settings)
    lens = natural(graph, input_prior(loaded, graph) if prior is None else prior, **settings)
    others = None if other is None else prepared_input(other, loaded, loaded.preprocessing)
    return look_at_all(Looking(lens, loaded, queries, others, form), data, out, progress)


@dataclass(frozen=True, eq=False)
class Looking:
    """What is asked of every input, and in which form it is kept."""

    lens: NaturalInverse
    loaded: LoadedModel
    queries: list[Query] | None
    others: Tensor | None = None
    """(1, *input) whose target serves as a control."""
    form: str = ".png"
    share: bool = True

    def __post_init__(self) -> None:
        forms = (*PICTURES, *NUMBERS)
        if self.form not in forms:
            raise DataError(f"a form among {', '.join(forms)}", repr(self.form), "Choose one of these.")
        if self.form in PICTURES:
            check_drawable(self.loaded.input_shape)
        if self.others is not None:
            check_input(self.lens.graph, self.others)
        for query in self.queries or ():  # what cannot be asked is refused before any input is read
            for part in query.parts:
                part.selection(self.lens.node(part.target or self.lens.target), torch.device("cpu"))

    def facts(self) -> Record:
        """What must be the same for a run to be resumed."""
        prepared = self.loaded.preprocessing
        return {
            "model": self.loaded.spec,
            "fingerprint": self.lens.graph.fingerprint,
            "forward": self._activations(),
            "queries": None if self.queries is None else [_identity(query) for query in self.queries],
            "estimator": self.lens.describe(),
            "background": None if self.lens.background is None else _digest(self.lens.background),
            "prior": [_digest(tensor) for tensor in self.lens.prior.tensors().values()],
            "preprocessing": prepared.as_dict() if prepared is not None else None,
            "other": None if self.others is None else _digest(self.others),
            "form": self.form,
            "share": self.share,
        }

    def _activations(self) -> dict[str, list[float]]:
        """A few of the queried tensors, at one fixed input and in two digits: hooks and attributes change them, other
        kernels do not."""
        lens = self.lens
        names = sorted({lens.node(name).name for name in targets_of(self.queries) or (lens.target,)})
        return {
            name: [float(f"{probe[0]:.2g}"), *(probe[1:] / max(probe[0], 1e-30)).round(2).tolist()]
            for name, probe in probes(lens.graph, names).items()
        }

    def at(self, x: Tensor) -> Look:
        names = token_names(self.loaded, x)
        return look_through(self.lens, x, self.queries, self.others, self.loaded.preprocessing, names)

    def write(self, look: Look, file: Path) -> None:
        """One result, whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.form in PICTURES:
            look.save(file, overwrite=True, share=self.share)
        else:
            write_tensors(file, look.tensors(self.share), {})


def _identity(query: Query) -> str:
    """Its text, with a digest of the directions: those of a file may change, others have no text."""
    rows = [part.directions.rows for part in query.parts if isinstance(part.directions, Directions)]
    return " ".join([str(query), *map(_digest, rows)])


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(raw_bytes(tensor)).hexdigest()[:16]


def look_at_all(
    looking: Looking, data: str | Path | Source, out: str | Path, progress: bool = True, restart: bool = False
) -> Looks:
    """The run of :func:`look_all`, with what it asks set up. ``restart``: earlier looks there are made again."""
    source = data if isinstance(data, Source) else open_source(data, looking.loaded)
    folder = Path(out)
    if source.path.is_dir() and folder.resolve().is_relative_to(source.path.resolve()):
        todo = "Results would be read as inputs: choose a folder elsewhere."
        raise StoreError("a folder outside that of the inputs", f"{folder} inside {source.path}", todo)
    lock = _claimed(folder, looking, restart)
    try:
        return _run(looking, source, folder, progress)
    finally:
        lock.release()


def _claimed(folder: Path, looking: Looking, restart: bool) -> PathLock:
    """The folder, locked, with our settings in it; refused where it holds anything else."""
    facts = json.dumps(looking.facts(), indent=1, sort_keys=True, default=str)
    held = folder / SETTINGS
    if folder.exists() and not folder.is_dir():
        raise StoreError("a folder for the results", f"{folder}, which is a file", "Choose another.")
    if folder.exists() and not held.is_file() and any(not is_draft(file) for file in folder.iterdir()):
        got = f"{folder}, which holds other files"
        raise StoreError("an empty folder, or one of earlier looks", got, "Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = PathLock(folder)
    except Busy as error:
        got = f"{folder}, where another run is at work"
        raise StoreError("a folder that nobody works in", got, "Wait for it, or choose another.") from error
    remove_drafts(folder)
    if restart:
        (folder / LINES).unlink(missing_ok=True)
    elif held.is_file() and held.read_text(encoding="utf-8", errors="surrogateescape") != facts:
        lock.release()
        todo = f"Choose another folder, or remove this one; {held} says what was asked."
        raise StoreError("results of the same model, queries and settings to go on with", f"others in {folder}", todo)
    write_text(held, facts)
    return lock


def _run(looking: Looking, source: Source, folder: Path, progress: bool) -> Looks:
    done = _read_lines(folder / LINES)
    write_text(folder / LINES, "".join(f"{json.dumps(line)}\n" for line in done.values()))  # without a half line
    records: list[Record] = []
    skipped: list[str] = []
    resumed = 0
    with (folder / LINES).open("a", encoding="utf-8") as lines:
        names = list(_names(source, folder, looking.form))
        for index, (name, file) in enumerate(tqdm(names, unit="input", disable=not progress)):
            try:
                digest = source.digest(index)
                record = done.get((name, digest)) if file.is_file() else None
                x = None if record is not None else _input(source, index, looking.loaded)
            except (DataError, OSError) as error:
                skipped.append(name)
                got = error.got if isinstance(error, DataError) else f"{name} ({first_line(error)})"
                warnings.warn(f"skipped {got}", SkippedFile, stacklevel=4)
                continue
            if x is None:
                resumed += 1
            else:
                look = looking.at(x)
                looking.write(look, file)
                record = _record(name, digest, file.relative_to(folder), look)
                lines.write(f"{json.dumps(record)}\n")
                lines.flush()
            records.append(record)  # type: ignore[arg-type]
    if not records:
        got = f"{len(skipped)}, none of them readable"
        raise DataError("at least one input that can be read", got, "Check the folder.")
    return Looks(folder, tuple(records), tuple(skipped), resumed)


def _input(source: Source, index: int, loaded: LoadedModel) -> Tensor:
    """(1, *input)"""
    if source.rows is None:
        x = read_image(source.files[index], image_preparation(loaded))
    else:
        x = source.batches([index], loaded, 1)[0]
    if not torch.isfinite(x).all():
        raise DataError("finite inputs", f"input {index} of {source.path}, NaN or infinity", "Clean it first.")
    return x


def _names(source: Source, folder: Path, form: str) -> Iterator[tuple[str, Path]]:
    """Of every input, its name and the file of its result: the same place in the tree, with another suffix."""
    if source.rows is not None:
        yield from ((f"{source.path.stem}[{index}]", folder / f"{index:06}{form}") for index in range(len(source)))
        return
    root = source.path if source.path.is_dir() else source.path.parent
    relative = [file.relative_to(root) for file in source.files]
    stems = Counter(path.with_suffix("") for path in relative)
    for path in relative:
        alone = stems[path.with_suffix("")] == 1
        yield shown(str(path)), folder / (path.with_suffix(form) if alone else path.with_name(path.name + form))


def _record(name: str, digest: str, file: Path, look: Look) -> Record:
    def score(value: Tensor | None) -> float | None:
        return None if value is None else round(float(value[0]), 6)

    answers = [
        {
            "query": str(answer.inverse.query),
            "verdict": answer.verdict(),
            "sentence": answer.sentence(),
            "random": score(answer.random),
            "swapped": score(answer.swapped),
            "neighbours": score(answer.neighbours),
        }
        for answer in look.answers
    ]
    return {"input": name, "digest": digest, "file": shown(str(file)), "queries": answers}


def _read_lines(file: Path) -> dict[tuple[str, str], Record]:
    """What is finished, by name and digest; a line that a killed process left half is no line."""
    done: dict[tuple[str, str], Record] = {}
    if not file.is_file():
        return done
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
            done[str(record["input"]), str(record["digest"])] = record
        except (ValueError, TypeError, KeyError):
            continue
    return done

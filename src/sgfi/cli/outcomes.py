"""How a command ends: messages for people, exit codes for scripts (docs/cli.md has the table)."""

from __future__ import annotations

import errno
import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

import typer

from sgfi import errors

R = TypeVar("R")

CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.DataError, 3),
    (errors.CaptureError, 4),
    (errors.PlanError, 4),
    (errors.QueryError, 5),
    (errors.StoreError, 6),
    (errors.CalibrationError, 7),
    (errors.SgfiError, 3),
)


MEMORY_MESSAGE = "Not enough memory. Choose a smaller --size, --batch-size, --limit or --memory, or a smaller model."
UNKNOWN_NODE = "the name of a tensor in the graph"
"""How the engine's error about a name begins."""


class Interrupted(Exception):
    """Ctrl-C during a job that can be resumed; carries the message."""


def command(function: Callable[..., R]) -> Callable[..., R]:
    """Run a command so that every expected failure becomes one clear message and its exit code.

    A parameter whose type is a dataclass stands for the options that are its fields.
    """
    groups: dict[str, type] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation  # type: ignore[assignment]
            hints = get_type_hints(parameter.annotation, include_extras=True)
            options += [
                option.replace(annotation=hints[option.name])
                for option in inspect.signature(groups[parameter.name]).parameters.values()
            ]
        else:
            options.append(parameter)

    @functools.wraps(function)
    def run(**given: Any) -> R:
        try:
            with _plain_warnings(quiet=bool(given.get("quiet"))):
                for name, group in groups.items():
                    given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
                return function(**given)
        except errors.SgfiError as error:
            fail(error)
            raise typer.Exit(next(code for kind, code in CODES if isinstance(error, kind))) from error
        except Interrupted as error:
            typer.secho(f"\n{error}", fg="yellow", err=True)
            raise typer.Exit(130) from error
        except KeyboardInterrupt as error:
            typer.secho("\nInterrupted; nothing was written.", fg="yellow", err=True)
            raise typer.Exit(130) from error
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            typer.secho(MEMORY_MESSAGE, fg="red", err=True)
            raise typer.Exit(9) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has gone, as in "| head"
                raise
            typer.secho(_disk_message(error), fg="red", err=True)
            raise typer.Exit(8) from error

    named = [option.replace(kind=option.KEYWORD_ONLY) for option in options]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__doc__ = re.sub(
        r"(?<!\n)\n( +(?:sgfi|torchrun) )", r"\n\n\1", function.__doc__ or ""
    )  # examples: a paragraph each
    return run


def fail(error: errors.SgfiError) -> None:
    """The three beats on three lines."""
    typer.secho(f"Expected {error.expected};", fg="red", err=True)
    typer.secho(f"got {error.got}.", fg="red", err=True)
    todo = _todo(error)
    if todo:
        typer.secho(todo, err=True)


def _todo(error: errors.SgfiError) -> str:
    """The engine's advice; where it names what Python prints, the command that shows the same."""
    if error.expected != UNKNOWN_NODE:
        return error.todo
    return f"{error.todo.replace('print(graph) lists every name.', '')} sgfi graph MODEL lists every name.".strip()


def say(text: str, quiet: bool = False) -> None:
    """Progress for people goes to the error stream; results go to the output stream."""
    if not quiet:
        typer.echo(text, err=True)


def _out_of_memory(error: BaseException) -> bool:
    """Python's own error, or what torch raises when it cannot allocate."""
    text = str(error)
    return isinstance(error, MemoryError) or "allocate" in text or "out of memory" in text


def _disk_message(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "The disk is full. Free some space or choose another --out; finished work is kept."
    where = f" ({error.filename})" if error.filename else ""
    return f"A file could not be read or written: {error.strerror or error}{where}."


@contextmanager
def _plain_warnings(quiet: bool = False) -> Iterator[None]:
    """Skipped files as one line each, without the source line, and none when quiet: the manifest counts them.

    Plug-ins that are left out are named even then.
    """
    from sgfi.graph import RandomModel
    from sgfi.inputs.data import SkippedFile
    from sgfi.plugins import PluginWarning

    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message, category, *rest):  # type: ignore[no-untyped-def]
            if issubclass(category, (SkippedFile, PluginWarning, RandomModel)):
                print(f"warning: {message}", file=sys.stderr)
            else:
                shown(message, category, *rest)

        warnings.showwarning = show
        warnings.simplefilter("ignore" if quiet else "always", SkippedFile)
        warnings.simplefilter("always", PluginWarning)
        # torch's own forward-mode set-up calls torch.jit.script; nothing the user can change.
        warnings.filterwarnings("ignore", ".torch.jit.script. is", FutureWarning)
        try:
            yield
        finally:
            warnings.showwarning = shown

"""How a command ends: messages for people, exit codes for scripts.

====  ============================================================
0     done
1     a fault of the program (a traceback is shown)
2     wrong use of the command line
3     data, weights or a model could not be read
4     the model could not be captured or the plan does not fit it
5     the query does not fit the maps
6     maps are missing, damaged, in the way, or of another model
7     calibration failed
8     the disk is full or a file could not be written
130   interrupted
====  ============================================================
"""

from __future__ import annotations

import errno
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import typer

from sgfi import errors

P = ParamSpec("P")
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


UNKNOWN_NODE = "the name of a tensor in the graph"
"""How the engine's error about a name begins."""


class Interrupted(Exception):
    """Ctrl-C during a job that can be resumed; carries the message."""


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Run a command so that every expected failure becomes one clear message and its exit code."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _plain_warnings(quiet=bool(kwargs.get("quiet"))):
                return function(*args, **kwargs)
        except errors.SgfiError as error:
            fail(error)
            raise typer.Exit(_code(error)) from error
        except Interrupted as error:
            typer.secho(f"\n{error}", fg="yellow", err=True)
            raise typer.Exit(130) from error
        except KeyboardInterrupt as error:
            typer.secho("\nInterrupted; nothing was written.", fg="yellow", err=True)
            raise typer.Exit(130) from error
        except OSError as error:
            typer.secho(_disk_message(error), fg="red", err=True)
            raise typer.Exit(8) from error

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


def _code(error: Exception) -> int:
    return next(code for kind, code in CODES if isinstance(error, kind))


def _disk_message(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "The disk is full. Free some space or choose another --out; finished work is kept."
    where = f" ({error.filename})" if error.filename else ""
    return f"A file could not be read or written: {error.strerror or error}{where}."


@contextmanager
def _plain_warnings(quiet: bool = False) -> Iterator[None]:
    """Skipped files as one line each, without the source line, and none when quiet: the manifest counts them."""
    from sgfi.inputs.data import SkippedFile

    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message, category, *rest):  # type: ignore[no-untyped-def]
            if issubclass(category, SkippedFile):
                print(f"warning: {message}", file=sys.stderr)
            else:
                shown(message, category, *rest)

        warnings.showwarning = show
        warnings.simplefilter("ignore" if quiet else "always", SkippedFile)
        # torch's own forward-mode set-up calls torch.jit.script; nothing the user can change.
        warnings.filterwarnings("ignore", ".torch.jit.script. is", FutureWarning)
        try:
            yield
        finally:
            warnings.showwarning = shown

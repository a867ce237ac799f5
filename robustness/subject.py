"""What the campaigns work on: a tiny model with fitted maps, and how one trial is judged."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from torch import Tensor, nn

import sgfi
from robustness.campaign import Tally
from sgfi.errors import SgfiError

PATIENCE = 60
"""Seconds after which a trial counts as a hang."""
PROGRAMS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pty.spawn", "os.startfile")
"""Audit events of a program being started."""
_started: list[str] = []
_watching: list[bool] = []


class Hang(BaseException):
    """A trial that took too long."""


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.three = nn.Conv2d(6, 4, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        return self.three(y + self.two(y.tanh()))


@cache
def model() -> Chain:
    torch.manual_seed(5)
    return Chain().eval()


def inputs(count: int, first: int = 0) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(100 + first))


@cache
def graph() -> sgfi.TensorGraph:
    return sgfi.capture(model(), inputs(2), check=False)  # without a derivative: kills fork this process


@cache
def plan(operator: str = "full") -> sgfi.Plan:
    return sgfi.plan(graph(), "three", ["one", "add"], operator=operator)


@cache
def family(operator: str = "full") -> sgfi.MapFamily:
    return calibrated(operator)


def calibrated(operator: str = "full", **running: Any) -> sgfi.MapFamily:
    return sgfi.calibrate(plan(operator), [inputs(8), inputs(8, 1)], progress=False, **running)


def same(one: sgfi.MapFamily, other: sgfi.MapFamily) -> bool:
    """Bit for bit."""
    return list(one.maps) == list(other.maps) and all(
        len(one.maps[name]) == len(other.maps[name])
        and all(
            torch.equal(left.unpacked[key], right.unpacked[key])
            for left, right in zip(one.maps[name], other.maps[name], strict=True)
            for key in left.unpacked
        )
        for name in one.maps
    )


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder, also the one for temporary files."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="robust-") as folder:
        (Path(folder) / "tmp").mkdir()
        tempfile.tempdir = str(Path(folder) / "tmp")
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def patience(seconds: int = PATIENCE) -> Iterator[None]:
    """Raise :class:`Hang` in what takes longer (on the main thread, where the system has such an alarm)."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def watched(tally: Tally, description: str) -> Iterator[None]:
    """A program that is started meanwhile is a code execution."""
    if not _watching:
        sys.addaudithook(lambda event, given: _started.append(str(given)[:200]) if event in PROGRAMS else None)
        _watching.append(True)
    _started.clear()
    yield
    if _started:
        tally.fail("code execution", f"{description}: {_started[0]}")


def attempt(tally: Tally, description: str, trial: Callable[[], Any], check: Callable[[Any], str] | None = None) -> Any:
    """One trial: it may answer, and then ``check`` finds nothing wrong, or refuse with an ``SgfiError``.

    ``check`` returns what is wrong with the answer, a silent difference, or nothing.
    """
    tally.tried()
    start = time.monotonic()
    try:
        with patience(), watched(tally, description), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = trial()
    except SgfiError:
        answer = None
    except Hang:
        tally.fail("hang", f"{description}: longer than {PATIENCE} s")
        answer = None
    except Exception as error:
        tally.fail("traceback", f"{description}: {type(error).__name__}: {str(error)[:200]} {_where(error)}")
        answer = None
    else:
        wrong = check(answer) if check is not None else ""
        if wrong:
            tally.fail("silent difference", f"{description}: {wrong}")
    seconds = time.monotonic() - start
    tally.measure(seconds, f"slowest {seconds:.1f} s: {description[:80]}")
    return answer


def _where(error: BaseException) -> str:
    """File and line of ours where it was raised."""
    place, step = "", error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if "/sgfi/" in name:
            place = f"({name.split('/sgfi/')[-1]}:{step.tb_lineno})"
        step = step.tb_next
    return place


def generate(strategy: SearchStrategy, count: int, start: int, body: Callable[[Any], None]) -> None:
    """Call ``body`` with ``count`` generated values; it counts failures itself and raises nothing."""

    @seed(start)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(value: Any) -> None:
        body(value)

    run()

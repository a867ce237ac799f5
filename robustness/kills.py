"""Processes killed at random moments and at every file operation: what was there is there, and work is resumed.

A trial forks this process, which has everything imported; the child is killed (SIGKILL) some time after it begins, or
by itself at its n-th file operation, and the parent looks at what is left, has another child finish the work, and looks
again. Derivatives are taken in children alone, and threads are set from outside: neither autograd nor the thread pool
that ``torch.set_num_threads`` makes survives a fork.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally
from sgfi.storage import files, read_manifest, verify_files, write_text

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "shutil.rmtree")
"""Audit events that count as file operations."""
MOMENTS = 30
"""Kills at random moments of each job."""
_countdown: list[int] = []


def run(effort: Effort) -> list[Row]:
    """In a process of its own, which has not taken a derivative."""
    words = [sys.executable, "-m", "robustness.kills", str(effort.seed), str(effort.share)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, env=environment)
    if done.returncode:
        raise RuntimeError(f"the campaign of kills failed: {done.stderr[-2000:]}")
    rows = json.loads(done.stdout.splitlines()[-1])
    return [Row(**{**row, "failures": tuple(row["failures"])}) for row in rows]


def main(effort: Effort) -> list[Row]:
    subject.plan(), subject.plan("diagonal")
    jobs = {
        "a calibration with a checkpoint": Calibration,
        "a calibration that spills": Spilling,
        "a save over another family": Overwrite,
        "an output written over another": Output,
    }
    with subject.scratch() as folder:
        return [
            row
            for number, (name, job) in enumerate(jobs.items())
            for row in (
                _at_every_operation(effort, name, job(folder / f"{number}-operations")),
                _at_random_moments(effort, name, job(folder / f"{number}-moments")),
            )
        ]


class Job:
    """Work that is killed, and what must hold afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def begin(self) -> None:
        """In the parent, before every trial."""

    def ready(self) -> Callable[[], object]:
        """In a child: what is to be killed."""
        raise NotImplementedError

    def lost(self, finished: bool) -> str:
        """In the parent: what is wrong after a kill, and after another child has finished the work."""
        raise NotImplementedError

    def hidden(self) -> str:
        left = [path.name for path in (*self.folder.rglob(".*"), *Path(tempfile.gettempdir()).glob("sgfi-spill-*"))]
        return f"left behind: {left}" if left else ""


class Calibration(Job):
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        _child(lambda: lambda: subject.calibrated(checkpoint=self.folder / "expected", **self.options))
        self.expected = _sums(self.folder / "expected")

    def begin(self) -> None:
        shutil.rmtree(self.folder / "maps", ignore_errors=True)

    def ready(self) -> Callable[[], object]:
        return lambda: subject.calibrated(checkpoint=self.folder / "maps", **self.options)

    def lost(self, finished: bool) -> str:
        if not finished:
            return ""
        verify_files(self.folder / "maps")
        return self.hidden() if _sums(self.folder / "maps") == self.expected else "other maps after the resumption"


class Spilling(Calibration):
    """With cross-fitted children, whose states are on disk too."""

    options: ClassVar[dict[str, Any]] = {"children": "cross-fitted", "memory": "300KB"}


class Overwrite(Job):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("full", "diagonal"):
            _child(lambda name=name: lambda: sgfi.save(subject.family(name), self.folder / name))
        self.families = {name: sgfi.load(self.folder / name, subject.graph()) for name in ("full", "diagonal")}
        self.whole = [_sums(self.folder / name) for name in ("full", "diagonal")]

    def begin(self) -> None:
        if not (self.folder / "maps").exists():
            shutil.copytree(self.folder / "full", self.folder / "maps")

    def ready(self) -> Callable[[], object]:
        old = read_manifest(self.folder / "maps")["plan"]["boundaries"][0]["operator"]
        family = self.families["diagonal" if old == "full" else "full"]
        return lambda: sgfi.save(family, self.folder / "maps", overwrite=True)

    def lost(self, finished: bool) -> str:
        verify_files(self.folder / "maps")
        whole = _sums(self.folder / "maps") in self.whole
        return (self.hidden() if finished else "") if whole else "neither the old nor the new family"


class Output(Job):
    TEXTS = ("old" * 1000, "new" * 1000)

    def begin(self) -> None:
        (self.folder / "out.json").write_text(self.TEXTS[0])

    def ready(self) -> Callable[[], object]:
        return lambda: write_text(self.folder / "out.json", self.TEXTS[1])

    def lost(self, finished: bool) -> str:
        text = (self.folder / "out.json").read_text()
        whole = text in self.TEXTS[finished:]
        return (self.hidden() if finished else "") if whole else f"half a file of {len(text)} characters"


def _sums(folder: Path) -> dict[str, str]:
    return {file.name: files.sha256(file) for file in sorted(folder.glob("*.safetensors"))}


def _at_every_operation(effort: Effort, name: str, job: Job) -> Row:
    tally = Tally(f"{name}, killed at every file operation", effort.seed)
    step = max(1, round(0.3 / effort.share))
    for number in range(1, 10_000, step):
        job.begin()
        killed, _ = _child(job.ready, number)
        _judge(tally, f"operation {number}", job)
        if not killed:
            break
    return tally.row()


def _at_random_moments(effort: Effort, name: str, job: Job) -> Row:
    title = f"{name}, killed at random moments"
    tally = Tally(title, effort.seed_of(title))
    rng = random.Random(tally.seed)
    job.begin()
    _, whole = _child(job.ready)
    for index in range(effort.count(MOMENTS, least=2)):
        job.begin()
        _child(job.ready, after=rng.uniform(0, whole))
        _judge(tally, f"kill {index}", job)
    return tally.row()


def _judge(tally: Tally, description: str, job: Job) -> None:
    tally.tried()
    try:
        lost = job.lost(False)
        if not lost:
            _child(job.ready)
            lost = job.lost(True)
    except Exception as error:
        lost = f"{type(error).__name__}: {error}"
    if lost:
        tally.fail("hang" if lost.startswith("TimeoutError") else "data lost", f"{description}: {lost[:300]}")


def _child(
    ready: Callable[[], Callable[[], object]], operation: int = -1, after: float | None = None
) -> tuple[bool, float]:
    """Run work in a fork, killed at its n-th file operation or after a time; whether it was killed, and its seconds.

    An unkilled child that fails is an error here.
    """
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        _run_and_leave(ready, operation, writes)
    os.close(writes)
    told = os.read(reads, 1)
    start = time.monotonic()
    if after is not None:
        time.sleep(after)
        os.kill(process, signal.SIGKILL)
    status = _waited(process)
    rest = b"" if after is not None or operation > 0 else os.read(reads, 3000)
    os.close(reads)
    meant = after is not None or operation > 0
    if (status and not (meant and os.WIFSIGNALED(status))) or not told:
        raise RuntimeError(f"the work itself failed, status {status}: {(told + rest).decode(errors='replace')}")
    return os.WIFSIGNALED(status), time.monotonic() - start


def _waited(process: int, patience: float = 120) -> int:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise TimeoutError(f"longer than {patience} s")


def _run_and_leave(ready: Callable[[], Callable[[], object]], operation: int, writes: int) -> None:
    """In the child; never returns."""
    try:
        work = ready()
        os.write(writes, b".")
        if operation > 0:
            _countdown.append(operation)
            sys.addaudithook(_count)
        work()
    except BaseException as error:
        os.write(writes, f"{type(error).__name__}: {error}".encode(errors="replace")[:2900])
        os._exit(1)
    os._exit(0)


def _count(event: str, given: tuple) -> None:
    if event not in OPERATIONS or (event == "open" and (given[1] or "")[:1] == "r"):
        return
    _countdown[0] -= 1
    if _countdown[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    print(json.dumps([row.as_dict() for row in main(Effort(int(sys.argv[1]), float(sys.argv[2])))]))

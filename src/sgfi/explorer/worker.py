"""One inference worker: a bounded queue, shared work, progress, cancellation.

Laws: equal keys that wait at the same time are worked on once; work that nobody waits for any more is dropped from the
queue, or stops at its next step; what one caller cancels stays alive while another waits for it.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sgfi.errors import SgfiError

QUEUE = 512
"""Tasks that may wait; one more is refused."""
Tick = Callable[[], None]
"""Called at every step of the work; raises :class:`Cancelled` where nobody waits for it any more."""


class Cancelled(Exception):
    """Nobody waits for this work any more."""


class BusyError(SgfiError):
    """The queue is full."""


class FaultError(SgfiError):
    """Something failed that should not have."""


@dataclass(eq=False)
class Ticket:
    """One caller's claim on a task."""

    future: Future
    progress: Callable[[int], None] | None = None
    drop: Callable[[Ticket], None] | None = None

    @classmethod
    def done(cls, answer: Any) -> Ticket:
        """Of something that needs no work."""
        ticket = cls(Future())
        ticket.future.set_result(answer)
        return ticket

    def cancel(self) -> None:
        """Wait no longer. Does nothing to a task that has ended."""
        if self.drop is not None:
            self.drop(self)

    def chained(self, step: Callable[[Any], Any]) -> Ticket:
        """A claim on what ``step`` makes of the answer."""
        ticket = Ticket(Future(), self.progress, lambda _: self.cancel())

        def settle(ended: Future) -> None:
            try:
                _resolve(ticket.future, step(ended.result()))
            except BaseException as error:
                _resolve(ticket.future, error)

        self.future.add_done_callback(settle)
        return ticket


def together(tickets: Sequence[Ticket]) -> Ticket:
    """A claim on all the answers, in order; the first error is its error."""

    def drop(_: Ticket) -> None:
        for ticket in tickets:
            ticket.cancel()

    joint = Ticket(Future(), drop=drop)

    def settle(ended: Future) -> None:
        if ended.exception() is not None:
            _resolve(joint.future, ended.exception())
        elif all(ticket.future.done() for ticket in tickets):
            _resolve(joint.future, [ticket.future.result() for ticket in tickets])

    for ticket in tickets:
        ticket.future.add_done_callback(settle)
    return joint


@dataclass(eq=False)
class _Task:
    key: str
    run: Callable[[Tick], Any]
    priority: int
    tickets: list[Ticket] = field(default_factory=list)
    steps: int = 0
    running: bool = False


class Worker:
    """Runs tasks one after another on a thread of its own, the most urgent (lowest number) first."""

    def __init__(self, queue: int = QUEUE) -> None:
        self.most = queue
        self.counts = dict.fromkeys(("asked", "done", "failed", "cancelled", "refused"), 0)
        self._tasks: dict[str, _Task] = {}
        self._heap: list[tuple[int, int, _Task]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._loop, name="sgfi-explorer", daemon=True)
        self._thread.start()

    def submit(
        self, key: str, run: Callable[[Tick], Any], priority: int = 0, progress: Callable[[int], None] | None = None
    ) -> Ticket:
        """Queue a task, or join the one of the same key."""
        with self._changed:
            self.counts["asked"] += 1
            task = self._tasks.get(key)
            if task is None:
                if sum(not waiting.running for waiting in self._tasks.values()) >= self.most:
                    self.counts["refused"] += 1
                    raise BusyError(
                        f"at most {self.most} waiting queries", "one more", "Wait for some of them, or cancel them."
                    )
                task = self._tasks[key] = _Task(key, run, priority)
                heapq.heappush(self._heap, (priority, next(self._order), task))
            elif priority < task.priority and not task.running:
                task.priority = priority
                heapq.heappush(self._heap, (priority, next(self._order), task))
            ticket = Ticket(Future(), progress, self._drop)
            task.tickets.append(ticket)
            self._changed.notify()
            return ticket

    @property
    def waiting(self) -> int:
        """Tasks in the queue or at work."""
        return len(self._tasks)

    def close(self) -> None:
        """Stop after the step at hand; whoever still waits is told that it was cancelled."""
        with self._changed:
            self._open = False
            left = [ticket for task in self._tasks.values() for ticket in task.tickets]
            self._changed.notify_all()
        for ticket in left:
            ticket.cancel()
        self._thread.join(timeout=60)

    def _drop(self, ticket: Ticket) -> None:
        with self._changed:
            task = next((task for task in self._tasks.values() if ticket in task.tickets), None)
            if task is None:
                return
            task.tickets.remove(ticket)
            if not task.tickets:  # a later question of the same key starts again
                del self._tasks[task.key]
                self.counts["cancelled"] += 1
        _resolve(ticket.future, Cancelled())

    def _loop(self) -> None:
        while True:
            with self._changed:
                while self._open and not self._heap:
                    self._changed.wait()
                if not self._open:
                    return
                _, _, task = heapq.heappop(self._heap)
                if task.running or self._tasks.get(task.key) is not task:
                    continue  # moved up in the queue, or cancelled
                task.running = True
            self._run(task)

    def _run(self, task: _Task) -> None:
        def tick() -> None:
            if not task.tickets or not self._open:
                raise Cancelled
            task.steps += 1
            for ticket in tuple(task.tickets):
                if ticket.progress is not None:
                    ticket.progress(task.steps)

        outcome: Any
        try:
            outcome = task.run(tick)
        except (Cancelled, SgfiError) as error:
            outcome = error
        except Exception as error:
            traceback.print_exc()
            outcome = FaultError(
                "an answer", f"{type(error).__name__}: {str(error)[:200]}", "This is a fault of sgfi: please report it."
            )
        with self._changed:
            if self._tasks.get(task.key) is task:
                del self._tasks[task.key]
                self.counts["failed" if isinstance(outcome, Exception) else "done"] += 1
            tickets = tuple(task.tickets)
        for ticket in tickets:
            _resolve(ticket.future, outcome)


def _resolve(future: Future, outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)

"""Shared work, urgency, bounds, cancellation."""

from __future__ import annotations

import threading

import pytest

from sgfi.errors import QueryError
from sgfi.explorer.worker import BusyError, Cancelled, FaultError, Worker


@pytest.fixture
def worker():
    opened = Worker(queue=3)
    yield opened
    opened.close()


def blocked(worker: Worker) -> threading.Event:
    """Keep the worker busy until the event is set."""
    began, free = threading.Event(), threading.Event()

    def hold(tick):
        began.set()
        free.wait(30)

    worker.submit("hold", hold)
    assert began.wait(30)
    return free


def test_equal_keys_are_worked_on_once(worker: Worker) -> None:
    free, runs = blocked(worker), []
    tickets = [worker.submit("same", lambda tick: runs.append(1) or len(runs)) for _ in range(5)]
    free.set()
    assert [ticket.future.result(30) for ticket in tickets] == [1] * 5
    assert runs == [1]


def test_the_most_urgent_goes_first_and_a_second_caller_can_raise_urgency(worker: Worker) -> None:
    free, order = blocked(worker), []
    last = [worker.submit(name, lambda tick, name=name: order.append(name), urgency) for name, urgency in
            (("late", 5), ("early", 1), ("raised", 9))]  # fmt: skip
    worker.submit("raised", lambda tick: None, 0)
    free.set()
    for ticket in last:
        ticket.future.result(30)
    assert order == ["raised", "early", "late"]


def test_a_full_queue_refuses(worker: Worker) -> None:
    free = blocked(worker)
    for number in range(3):
        worker.submit(str(number), lambda tick: None)
    with pytest.raises(BusyError):
        worker.submit("more", lambda tick: None)
    free.set()
    assert worker.counts["refused"] == 1


def test_cancelled_work_in_the_queue_is_never_started(worker: Worker) -> None:
    free, runs = blocked(worker), []
    gone = worker.submit("gone", lambda tick: runs.append("gone"))
    kept = worker.submit("kept", lambda tick: runs.append("kept"))
    gone.cancel()
    free.set()
    kept.future.result(30)
    assert runs == ["kept"]
    assert isinstance(gone.future.exception(), Cancelled)
    assert worker.waiting == 0


def test_cancelled_work_stops_at_its_next_step_unless_another_waits(worker: Worker) -> None:
    began, free, steps = threading.Event(), threading.Event(), []

    def slow(tick):
        began.set()
        free.wait(30)
        for step in range(100):
            tick()
            steps.append(step)
        return "done"

    first, second = worker.submit("slow", slow), worker.submit("slow", slow)
    assert began.wait(30)
    first.cancel()
    free.set()
    assert second.future.result(30) == "done"  # somebody still waited
    began.clear(), free.clear(), steps.clear()
    alone = worker.submit("slow", slow)
    assert began.wait(30)
    alone.cancel()
    free.set()
    worker.submit("after", lambda tick: None).future.result(30)
    assert steps == []


def test_errors_reach_whoever_waits_and_the_worker_goes_on(worker: Worker, capsys) -> None:
    def refuse(tick):
        raise QueryError("a", "b", "c")

    with pytest.raises(QueryError):
        worker.submit("refuse", refuse).future.result(30)
    with pytest.raises(FaultError, match="ZeroDivisionError"):
        worker.submit("fault", lambda tick: 1 / 0).future.result(30)
    assert worker.submit("fine", lambda tick: 7).future.result(30) == 7
    assert "ZeroDivisionError" in capsys.readouterr().err

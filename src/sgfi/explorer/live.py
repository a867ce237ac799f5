"""Live questions over any carrier of JSON messages: stages as they are ready, progress, cancellation.

To the server: ``{"id": 1, "ask": {"lens": ..., "input": ..., "query": ..., "stages": ["preview", "final", "trust"]}}``
and ``{"id": 1, "cancel": true}``. From it, for every stage, ``{"id": 1, "stage": "final", "state": ...}`` where the
state is ``"queued"``, ``"working"`` (with ``steps``), ``"done"`` (with ``facts``), ``"failed"`` (with ``error``) or
``"cancelled"``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sgfi.errors import QueryError, SgfiError
from sgfi.explorer.answers import STAGES
from sgfi.explorer.site import Site, error_record
from sgfi.explorer.worker import Cancelled, Ticket

OPEN, LETTERS, RATE = 256, 16_384, 400
"""Questions one client may have open, letters in a message, messages a second."""
PAUSE = 0.1
"""Seconds between two reports of progress."""


class Conversation:
    """One client's open questions. ``send`` may be called from any thread."""

    def __init__(self, site: Site, send: Callable[[dict[str, Any]], None]) -> None:
        self.site, self.send = site, send
        self._open: dict[int, list[Ticket]] = {}
        self._lock = threading.Lock()
        self._second, self._messages = 0, 0

    def receive(self, text: str) -> None:
        """Act on a message; a malformed one is answered by an error and changes nothing."""
        number: Any = None
        try:
            message = _parsed(text)
            number = message["id"]
            self._count()
            if message.get("cancel") is True:
                self.cancel(number)
            else:
                self._ask(number, message.get("ask"))
        except SgfiError as error:
            self.send({"id": number, "state": "failed", "error": error_record(error)})

    def cancel(self, number: int) -> None:
        with self._lock:
            tickets = self._open.pop(number, [])
        for ticket in tickets:
            ticket.cancel()

    def close(self) -> None:
        for number in tuple(self._open):
            self.cancel(number)

    def _ask(self, number: int, ask: Any) -> None:
        names = ("lens", "input", "query")
        if not isinstance(ask, dict) or not all(isinstance(ask.get(name), str) for name in names):
            raise QueryError('{"ask": {"lens", "input", "query"}} as text', repr(ask)[:200], "Send these three.")
        stages, other = ask.get("stages", ["final"]), ask.get("other", "")
        if not isinstance(stages, list) or not stages or not set(map(str, stages)) <= set(STAGES):
            raise QueryError(f"stages among {list(STAGES)}", repr(stages)[:200], "Send a list of these.")
        if len(self._open) >= OPEN or number in self._open:
            raise QueryError(f"a new id, and at most {OPEN} open questions", str(number), "Cancel some first.")
        if not isinstance(other, str):
            raise QueryError("the other input's SHA-256", repr(other)[:80], "Send it as text.")
        lens, sha, query = (ask[name] for name in names)
        questions = [self.site.workspace.question(lens, sha, query, stage, other) for stage in stages]
        with self._lock:
            self._open[number] = []
        for question in questions:
            self._follow(number, question, ask.get("background") is True, len(questions))

    def _follow(self, number: int, question: Any, background: bool, count: int) -> None:
        last = [0.0]

        def progress(steps: int) -> None:
            now = time.monotonic()
            if now - last[0] > PAUSE:
                last[0] = now
                self.send({"id": number, "stage": question.stage, "state": "working", "steps": steps})

        ticket = self.site.ask(question, progress, background)
        with self._lock:
            self._open.setdefault(number, []).append(ticket)
        if not ticket.future.done():
            self.send({"id": number, "stage": question.stage, "state": "queued", "ahead": self.site.worker.waiting - 1})

        def settle(future: Future) -> None:
            with self._lock:
                mine = self._open.get(number)
                if mine is not None and len(mine) == count and all(job.future.done() for job in mine):
                    del self._open[number]
            self.send({"id": number, "stage": question.stage, "query": question.query, **_outcome(future)})

        ticket.future.add_done_callback(settle)

    def _count(self) -> None:
        second = int(time.monotonic())
        self._messages = self._messages + 1 if second == self._second else 1
        self._second = second
        if self._messages > RATE:
            raise QueryError(f"at most {RATE} messages a second", "one more", "Send more slowly.")


def _outcome(future: Future) -> dict[str, Any]:
    error = future.exception()
    if isinstance(error, Cancelled):
        return {"state": "cancelled"}
    if error is not None:
        return {"state": "failed", "error": error_record(error)}
    return {"state": "done", "facts": dict(future.result().facts)}


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > LETTERS:
        raise QueryError(f"messages of at most {LETTERS} letters", str(len(text)), "Send less at once.")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or isinstance(message.get("id"), bool) or not isinstance(message.get("id"), int):
        raise QueryError('a JSON object with a whole number as "id"', repr(text[:100]), "See sgfi.explorer.live.")
    return message

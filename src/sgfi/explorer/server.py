"""The web server on this computer: who may ask, and how replies travel."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
import time
from collections import deque
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from sgfi.errors import SgfiError
from sgfi.explorer.inputs import BYTES
from sgfi.explorer.live import Conversation
from sgfi.explorer.site import NotFoundError, Reply, Site, error_reply
from sgfi.optional import need

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/assets/explorer.js": ("assets/explorer.js", "text/javascript; charset=utf-8"),
    "/assets/explorer.css": ("assets/explorer.css", "text/css; charset=utf-8"),
}
"""The bundle: the only files that are served."""
UPLOADS = 60
"""A minute."""
LONGEST_PATH = 4096


class RefusedError(SgfiError):
    """Not from where it should come, or without the token."""


class Gate:
    """Which requests are let in. Laws: nothing but the page's own files without the token; no Host but this server's,
    so that a name that resolves to this computer is not enough; no Origin but this server's."""

    def __init__(self, token: str, host: str, port: int) -> None:
        self.token, self.port = token, port
        self.names = {"127.0.0.1", "localhost", "[::1]", host if ":" not in host else f"[{host}]"}
        self.any_address = host in ("0.0.0.0", "::")
        if self.any_address:
            self.names.add(socket.gethostname().lower())
        self._uploads: deque[float] = deque(maxlen=UPLOADS)

    def check_origin(self, headers: dict[str, str]) -> None:
        """Raise where the Host is not this server, or a page from elsewhere asks."""
        host = headers.get("host", "")
        if not self._own(host):
            raise RefusedError(f"the Host of this server, port {self.port}", repr(host[:80]), "Use the printed link.")
        origin = headers.get("origin")
        if origin is not None and not (origin.startswith("http://") and self._own(origin[7:])):
            raise RefusedError("the page's own Origin", repr(origin[:80]), "Pages from elsewhere may not ask.")

    def check_token(self, headers: dict[str, str], params: dict[str, str]) -> None:
        given = headers.get("authorization", "").removeprefix("Bearer ") or params.get("token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            got = "another one" if given else "none"
            raise RefusedError("the token of this server", got, "Open the link that sgfi explore printed.")

    def check_upload(self) -> None:
        now = time.monotonic()
        if len(self._uploads) == UPLOADS and now - self._uploads[0] < 60:
            raise RefusedError(f"at most {UPLOADS} uploads a minute", "one more", "Wait a minute.")
        self._uploads.append(now)

    def _own(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or port != str(self.port):
            return False
        return name in self.names or (self.any_address and _is_address(name.strip("[]")))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class App:
    """An ASGI application."""

    def __init__(self, site: Site, gate: Gate) -> None:
        self.site, self.gate = site, gate

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        requests = need("starlette.requests", "explorer")
        responses = need("starlette.responses", "explorer")
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._live(need("starlette.websockets", "explorer").WebSocket(scope, receive, send))
        elif scope["type"] == "http":
            request = requests.Request(scope, receive)
            reply = await self._reply(request)
            response = responses.Response(reply.body, reply.status, {**HEADERS, **reply.headers}, reply.type)
            await response(scope, receive, send)

    async def _reply(self, request: Any) -> Reply:
        headers, params = dict(request.headers), dict(request.query_params)
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1").split("?")[0]
        try:
            self.gate.check_origin(headers)
            if len(path) > LONGEST_PATH:
                raise NotFoundError(f"an address of at most {LONGEST_PATH} letters", str(len(path)), "Ask for less.")
            if path in ASSETS and request.method in ("GET", "HEAD"):
                return asset(path)
            self.gate.check_token(headers, params)
            params.pop("token", None)
            if request.method == "POST" and path == "/api/inputs":
                return await self._upload(request, headers)
            if request.method != "GET":
                raise NotFoundError("a GET", request.method, "Only inputs can be sent, to /api/inputs.")
        except SgfiError as error:
            return _refusal(error)
        return await self._waited(request, path, params, headers.get("if-none-match"))

    async def _waited(self, request: Any, path: str, params: dict[str, str], known: str | None) -> Reply:
        """The reply, or nothing: a client that hangs up cancels its question."""
        ticket = await asyncio.to_thread(self.site.request, path, params, known)
        answered = asyncio.ensure_future(asyncio.wrap_future(ticket.future))
        gone = asyncio.ensure_future(_hung_up(request))
        await asyncio.wait({answered, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not answered.done():
            ticket.cancel()
        try:
            return await answered
        except Exception as error:
            return error_reply(error)

    async def _upload(self, request: Any, headers: dict[str, str]) -> Reply:
        self.gate.check_upload()
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > BYTES:
            return _too_large(int(declared))
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > BYTES:
                return _too_large(size)
            parts.append(part)
        kind = "text" if headers.get("content-type", "").startswith("text/plain") else "picture"
        name = request.query_params.get("name", kind)
        return await asyncio.to_thread(self.site.add, b"".join(parts), name, kind)

    async def _live(self, socket_: Any) -> None:
        headers, params = dict(socket_.headers), dict(socket_.query_params)
        try:
            self.gate.check_origin(headers)
            self.gate.check_token(headers, params)
            if socket_.url.path != "/live":
                raise NotFoundError("/live", socket_.url.path[:80], "Connect there.")
        except SgfiError:
            await socket_.close(1008)
            return
        await socket_.accept()
        loop = asyncio.get_running_loop()
        outbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        def post(message: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(outbox.put_nowait, message)

        talk = Conversation(self.site, post)
        sender = asyncio.ensure_future(_forward(outbox, socket_))
        try:
            while True:
                message = await socket_.receive()
                if message["type"] != "websocket.receive":
                    break
                await asyncio.to_thread(talk.receive, message.get("text") or "")
        finally:
            talk.close()
            outbox.put_nowait(None)
            await sender


async def _forward(outbox: asyncio.Queue, socket_: Any) -> None:
    try:
        while (message := await outbox.get()) is not None:
            await socket_.send_text(json.dumps(message))
    except Exception:  # the client is gone; whichever way the library says so
        return


async def _hung_up(request: Any) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.2)


async def _lifespan(receive: Callable, send: Callable) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def asset(path: str) -> Reply:
    """A file of the bundle."""
    name, kind = ASSETS[path]
    file = files("sgfi.explorer").joinpath("static", *name.split("/"))
    return Reply(file.read_bytes(), kind, headers={"cache-control": "no-cache"})


def _too_large(size: int) -> Reply:
    error = RefusedError(f"at most {BYTES >> 20} MiB", f"{size / 2**20:.1f} MiB", "Send a smaller file.")
    return error_reply_with(error, 413)


def _refusal(error: SgfiError) -> Reply:
    return error_reply_with(error, 403) if isinstance(error, RefusedError) else error_reply(error)


def error_reply_with(error: SgfiError, status: int) -> Reply:
    reply = error_reply(error)
    return Reply(reply.body, reply.type, status)


def free_port(host: str, wanted: int) -> socket.socket:
    """A bound socket: the wanted port, or, where it is taken and nobody insisted, another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, wanted))
    return bound


def run(site: Site, token: str, bound: socket.socket, host: str, ready: Callable[[], None]) -> None:
    """Serve until interrupted; ``ready`` is called when the page answers."""
    uvicorn = need("uvicorn", "explorer")
    need("websockets", "explorer")
    app = App(site, Gate(token, host, bound.getsockname()[1]))
    config = uvicorn.Config(
        app, log_level="warning", ws="websockets-sansio", ws_max_size=2**16, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    started = server.startup

    async def startup(sockets: Any = None) -> None:
        await started(sockets=sockets)
        ready()

    server.startup = startup
    try:
        server.run(sockets=[bound])
    finally:
        site.close()

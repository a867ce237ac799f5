"""Loopback servers: a plain file server, and as much of a hub's protocol as huggingface_hub's client asks for."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlparse

Files = dict[str, bytes]


class Server(ThreadingHTTPServer):
    """``asked`` has the method and path of every request."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], content: Any) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.content, self.asked = content, []  # type: ignore[var-annotated]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, method: str = "GET") -> list[str]:
        return [path.rpartition("/")[2] for asked, path in self.asked if asked == method]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    @property
    def route(self) -> str:
        return unquote(urlparse(self.path).path)

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append((self.command, self.route))
        self.get()

    def get(self) -> None:
        file = self.server.content.get(self.route.strip("/"))
        if isinstance(file, int):
            self.answer(file)
        else:
            self.answer(404) if file is None else self.answer(200, file)


class HubHandler(Handler):
    """Content: repository -> revision -> files; ``main`` moves, commits stay."""

    def get(self) -> None:
        org, name, _, revision, file = (self.route.strip("/").split("/", 4) + [""] * 5)[:5]
        repository = self.server.content.get(f"{org}/{name}")
        if repository is None:
            self.answer(404, X_Error_Code="RepoNotFound")
        elif revision not in repository:
            self.answer(404, X_Error_Code="RevisionNotFound")
        elif file not in repository[revision]:
            self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit_of(repository[revision]))
        else:
            body = repository[revision][file]
            digest = f'"{hashlib.sha256(body).hexdigest()}"'
            self.answer(200, body, ETag=digest, X_Repo_Commit=commit_of(repository[revision]))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.route))
        content = self.server.content
        if self.route == "/api/repos/create":
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}" if given.get("organization") else given["name"]
            content.setdefault(name, {})
            self.json({"url": f"{self.server.address}/{name}"})
        elif self.route == "/api/validate-yaml":
            self.json({"errors": [], "warnings": []})
        elif "/preupload/" in self.route:
            paths = [file["path"] for file in json.loads(body)["files"]]
            self.json({"files": [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in paths]})
        elif "/commit/" in self.route:
            name = "/".join(self.route.split("/")[3:5])
            lines = [json.loads(line) for line in body.splitlines()]
            files = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            content[name] = {**content[name], "main": files, commit_of(files): files}
            self.json(
                {
                    "success": True,
                    "commitOid": commit_of(files),
                    "commitUrl": f"{self.server.address}/{name}/commit/{commit_of(files)}",
                }
            )
        else:
            self.answer(404)

    def json(self, content: Any) -> None:
        self.answer(200, json.dumps(content).encode(), Content_Type="application/json")


def commit_of(files: Files) -> str:
    return hashlib.sha1(b"".join(name.encode() + body for name, body in sorted(files.items()))).hexdigest()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], content: Any) -> Iterator[Server]:
    server = Server(handler, content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

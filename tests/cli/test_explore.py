"""``sgfi explore`` and ``sgfi export`` without a browser."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from sgfi.cli.app import app
from sgfi.cli.exploring import open_sources, parse_link
from sgfi.explorer import Site, Store, Workspace, natural_lens
from sgfi.inputs.models import load_model
from tests.cli.conftest import BUILDER
from tests.explorer.serving import picture

RUN = CliRunner()


@pytest.fixture
def explored(tmp_path: Path) -> tuple[str, Path, Site]:
    """A link to a tiny model that was open here, its cache, and what the page would have shown."""
    (tmp_path / "net.py").write_text(BUILDER)
    torch.manual_seed(0)
    lens = natural_lens(load_model(f"{tmp_path / 'net.py'}:build"))
    workspace = Workspace(Store(tmp_path / "cache"), [lens])
    sha = workspace.add(picture(1), "mine", "picture").sha
    query = f"{lens.estimator.target}:1"
    return f"http://127.0.0.1:1/?token=t#m={lens.id}&x={sha}&q={query}&w=signed", tmp_path, Site(workspace)


def test_a_link_is_exported_without_a_server(explored: tuple[str, Path, Site], monkeypatch: pytest.MonkeyPatch) -> None:
    link, folder, site = explored
    shown = parse_link(link)
    cache, model = ["--cache", str(folder / "cache")], ["--model", f"{folder / 'net.py'}:build"]
    refused = RUN.invoke(app, ["export", link, "--out", str(folder / "a.png"), *cache])
    assert refused.exit_code == 3 and "would be run" in refused.output  # a link alone never runs a file
    for suffix in ("png", "svg", "html", "safetensors", "py", "sh"):
        out = folder / f"a.{suffix}"
        done = RUN.invoke(app, ["export", link, "--out", str(out), *cache, *model])
        assert done.exit_code == 0, done.output
        what = "inverse" if suffix in ("png", "safetensors") else "export"
        path = f"/{what}/{shown['m']}/{shown['x']}/{shown['q']}.{suffix}"
        made = site.request(path, {"stage": "final", "view": "signed"}).future.result(60)
        assert out.read_bytes() == made.body
    shown_value = load_file(folder / "a.safetensors")["value"]
    names: dict = {}
    exec((folder / "a.py").read_text(), names)  # the lines make the same numbers again
    torch.testing.assert_close(names["answer"].value, shown_value)
    monkeypatch.chdir(folder)
    commands = (folder / "a.sh").read_text().splitlines()
    assert [shlex.split(line)[1] for line in commands] == ["export", "look"]
    for line in commands:
        done = RUN.invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    assert (folder / "answer.png").read_bytes() == (folder / "a.png").read_bytes()
    torch.testing.assert_close(load_file(folder / "answer.safetensors")["inverse"], shown_value, rtol=1e-6, atol=1e-6)
    site.close()


@pytest.mark.parametrize("link", ["", "http://127.0.0.1:1/", "#m=a&x=b", "#m=0123456789abcdef&x=b&q=c"])
def test_a_link_that_leads_nowhere(link: str, tmp_path: Path) -> None:
    done = RUN.invoke(app, ["export", link, "--out", str(tmp_path / "a.png"), "--cache", str(tmp_path / "cache")])
    assert done.exit_code == 3 and not (tmp_path / "a.png").exists()


@pytest.mark.parametrize(
    "arguments", [["--host", "0.0.0.0"], ["--token", "short"], ["nothing-here.jpg"], ["pip:nothing"], ["--port", "1"]]
)
def test_what_explore_refuses(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgfi.cli.exploring.natural_lens", lambda *_, **__: pytest.skip("would have started"))
    if arguments == ["--port", "1"]:
        monkeypatch.setattr("sgfi.cli.exploring.open_sources", lambda *_: ([], [], []))

        def refused(*_: object) -> None:
            raise OSError(13, "Permission denied")

        monkeypatch.setattr("sgfi.cli.exploring.free_port", refused)
    if arguments == ["nothing-here.jpg"]:
        monkeypatch.setattr("sgfi.cli.exploring.natural_lens", lambda *_, **__: type("L", (), {"text": False}))
    done = RUN.invoke(app, ["explore", *arguments, "--no-browser", "--cache", str(tmp_path)])
    assert done.exit_code == 3, done.output


def test_what_the_command_line_names(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BUILDER)
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(picture(3))
    spec = f"{tmp_path / 'net.py'}:build"
    lenses, files, texts = open_sources([spec, str(tmp_path)], None, None, True)
    assert [lens.title for lens in lenses] == [spec] and texts == []
    assert [file.name for file in files] == ["a.png", "b.png"]
    lenses, files, _ = open_sources([spec], None, None, True)
    assert len(files) == 3  # the photographs that pip packages carry


def started(folder: Path, port: int) -> tuple[subprocess.Popen, str]:
    """``sgfi explore`` on a tiny model, and the link that it printed."""
    words = [f"{folder / 'net.py'}:build", str(folder / "a.png"), "--no-browser", "--port", str(port), "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "sgfi", "explore", *words, "--cache", str(folder / "cache")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_a_link_answers_after_the_server_was_killed(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BUILDER.replace("return Tiny()", "torch.manual_seed(0)\n    return Tiny()"))
    (tmp_path / "a.png").write_bytes(picture(3))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers, links = [], []
    for _ in range(2):
        process, link = started(tmp_path, port)
        try:
            token = link.partition("token=")[2]
            base = f"http://127.0.0.1:{port}"
            asked = {"Authorization": f"Bearer {token}"}

            def get(path: str, base: str = base, asked: dict = asked) -> bytes:
                with urllib.request.urlopen(urllib.request.Request(base + path, headers=asked), timeout=60) as reply:
                    return reply.read()

            (lens,), (entry,) = json.loads(get("/api/models")), json.loads(get("/api/inputs"))
            answers.append(get(f"/inverse/{lens['id']}/{entry['sha']}/{lens['target']}:1.safetensors"))
            links.append(link)
        finally:
            process.kill()
            process.communicate(timeout=60)
    assert links[0] == links[1] and answers[0] == answers[1]

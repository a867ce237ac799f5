"""``sgfi explore`` and ``sgfi export``: a page on this computer where every unit has a link."""

from __future__ import annotations

import json
import secrets
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

import typer

from sgfi.cli import options
from sgfi.cli.loading import names_model, open_family
from sgfi.cli.outcomes import command, say
from sgfi.errors import DataError, QueryError
from sgfi.explorer import Lens, Site, Store, Workspace, default_folder, map_lens, natural_lens
from sgfi.explorer.server import free_port, run
from sgfi.inputs.data import IMAGE_SUFFIXES
from sgfi.inputs.models import load_model, parse_spec
from sgfi.inputs.photographs import HELD_OUT
from sgfi.language import tokenise
from sgfi.storage import is_map_folder

DEMO, DEMO_SIZE = "pip:efficientnet_lite0", 128
TEXTS = ("The keys of the old cabinet are on the table", "The fisherman pulled his boat onto the muddy bank")
PORT, LOOPBACK = 8642, "127.0.0.1"
EXPORTS = (".png", ".svg", ".html", ".safetensors", ".py", ".sh")


@command
def explore(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL|MAPS|INPUT]...",
            help="Models (torchvision:NAME, ...), map folders, pictures, folders of pictures, texts in quotes. "
            "Nothing: EfficientNet-Lite0 and a few photographs.",
        ),
    ] = None,
    size: options.Size = None,
    weights: options.Weights = None,
    port: Annotated[int | None, typer.Option(help=f"Default: {PORT}, or a free one where that is taken.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    host: Annotated[
        str, typer.Option(help="Address to serve on; other than this computer's own, it needs --token.")
    ] = (LOOPBACK),
    token: Annotated[
        str | None, typer.Option(help="Secret in the link, at least 16 letters. Default: one kept in --cache.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where inputs and answers are kept. Default: ~/.cache/sgfi/explorer.")
    ] = None,
    directions: Annotated[
        list[Path] | None,
        typer.Option(help="A .safetensors of directions that queries may name, as in layer%probe.safetensors:3."),
    ] = None,
    jacobian_lens: Annotated[
        Path | None,
        typer.Option(help="A .safetensors with a matrix to the final residual for each layer of a language model."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Open a page where a click on a layer, a channel, a cell or a token shows what it identifies.

    Everything stays on this computer. The natural inverse answers at once; map folders can be opened beside it. The
    link is printed when the page answers; links keep working after a restart.

    Examples:

      sgfi explore

      sgfi explore torchvision:resnet50 photo.jpg

      sgfi explore pip:efficientnet_lite0 maps/lite0 photos/ --size 128

      sgfi explore hf:gpt2 "The keys of the cabinet are on the table"
    """
    _check_host(host, token)
    lenses, files, texts = open_sources(sources or [], size, weights, quiet)
    store = Store(cache or default_folder())
    named_files([jacobian_lens] if jacobian_lens else [])  # is it one?
    workspace = Workspace(store, lenses, named_files(directions or []), jacobian_lens)
    for file in files:
        workspace.add(file.read_bytes(), file.stem, "picture")
    for text in texts:
        workspace.add(text.encode(), text, "text")
    bound = _bound(host, port)
    secret = token or store.token()
    shown = LOOPBACK if host in ("0.0.0.0", "::") else host
    link = f"http://{f'[{shown}]' if ':' in shown else shown}:{bound.getsockname()[1]}/?token={secret}"

    def ready() -> None:
        typer.echo(link)
        say("Ctrl-C ends it.", quiet)
        if browser:
            webbrowser.open(link)

    run(Site(workspace), secret, bound, host, ready)


@command
def export(
    link: Annotated[str, typer.Argument(help="A link of the explorer, or what follows its '#'. Quote it.")],
    out: Annotated[Path, typer.Option(help=f"Ends in {', '.join(EXPORTS)}.")] = Path("explorer.png"),
    cache: Annotated[Path | None, typer.Option(help="The explorer's --cache.")] = None,
    model: options.ModelOverride = None,
    directions: Annotated[list[Path] | None, typer.Option(help="As for sgfi explore.")] = None,
    force: options.Force = False,
) -> None:
    """Write what a link shows to a file, without a browser or a server.

    A .png, .svg or .safetensors, a single .html file, or the lines that make it again: .py, .sh.

    Example:

      sgfi export "http://127.0.0.1:8642/?token=...#m=...&x=...&q=blocks.2.1:3" --out figure.svg
    """
    options.check_out(out, force, EXPORTS)
    store = Store(cache or default_folder())
    wanted = parse_link(link)
    site = Site(Workspace(store, [reopened(store, wanted["m"], model)], named_files(directions or [])))
    try:
        path, params = export_path(wanted, out.suffix)
        reply = site.request(path, params).future.result()
    finally:
        site.close()
    if reply.status != 200:
        raise QueryError(**json.loads(reply.body)["error"])
    out.write_bytes(reply.body)
    typer.echo(str(out))


def parse_link(link: str) -> dict[str, str]:
    """Lens, input, query and how they are shown; nothing else of the link matters."""
    shown = {key: values[-1] for key, values in parse_qs(urlsplit(link).fragment or link).items()}
    missing = [name for name in ("m", "x", "q") if not shown.get(name)]
    if missing:
        raise DataError("a link with m=, x= and q= after the '#'", f"one without {missing}", "Copy the whole link.")
    return shown


def export_path(shown: dict[str, str], suffix: str) -> tuple[str, dict[str, str]]:
    stage = "share" if shown.get("s") == "1" else "final"
    what = "inverse" if suffix in (".png", ".safetensors") else "export"
    params = {"stage": stage, **({"view": "signed"} if shown.get("w") == "signed" else {})}
    return f"/{what}/{shown['m']}/{shown['x']}/{quote(shown['q'], safe='')}{suffix}", params


def reopened(store: Store, name: str, model: str | None) -> Lens:
    """A lens that was open on this computer before. A Python file runs only where ``model`` names it."""
    record = store.lens_record(name)
    if record is None:
        raise DataError(
            "a model that was opened here before", repr(name[:40]), "Start sgfi explore with that model once."
        )
    if record["kind"] == "maps":
        opened = open_family(Path(record["source"]), model)
        lens = map_lens(opened.estimator, opened.loaded, record["source"], opened.manifest)
    else:
        spec = model or record["source"]
        if model is None and parse_spec(spec).scheme == "file":
            raise DataError(
                "the Python file that builds the model, named on this command line",
                f"a link to {spec}, which would be run",
                f"If you trust that file: --model {spec}",
            )
        lens = natural_lens(load_model(spec, record["weights"], size=record.get("size")), size=record.get("size"))
    if lens.id != name:
        raise DataError("the weights and settings of the link", f"others in {record['source']}", "Open the page again.")
    return lens


def open_sources(
    sources: list[str], size: int | None, weights: str | None, quiet: bool
) -> tuple[list[Lens], list[Path], list[str]]:
    """Lenses, pictures and texts from what the command line named."""
    named = [source for source in sources if names_model(source)]
    folders = [source for source in sources if not names_model(source) and is_map_folder(Path(source))]
    rest = [source for source in sources if source not in named and source not in folders]
    if not named and not folders:
        named, size = [DEMO], size or DEMO_SIZE
    texts = [source for source in rest if not Path(source).exists()]
    lenses = []
    for spec in named:
        say(f"opening {spec}", quiet)
        loaded = load_model(spec, weights, size=size)
        if loaded.tokenizer is not None:  # captured at the length of the first text; others when they are asked about
            length = len(tokenise(loaded.tokenizer, (texts or TEXTS)[0]))
            loaded = replace(loaded, input_shape=(length, *loaded.input_shape[1:]))
        lenses.append(natural_lens(loaded, size=size))
    for folder in folders:
        say(f"opening {folder}", quiet)
        opened = open_family(Path(folder))
        lenses.append(map_lens(opened.estimator, opened.loaded, str(Path(folder).resolve()), opened.manifest))
    files = [file for source in rest if Path(source).exists() for file in _pictures(Path(source))]
    if texts and not any(lens.text for lens in lenses):
        raise DataError("a model, a map folder or a picture", f"nothing at {texts[0]!r}", "Check the path.")
    if not files and any(lens.picture for lens in lenses):
        files = [photograph.file for photograph in HELD_OUT]
    if not texts and any(lens.text for lens in lenses):
        texts = list(TEXTS)
    return lenses, files, texts


def named_files(paths: list[Path]) -> dict[str, Path]:
    """Files by the name that a link shows; a link never holds a path."""
    missing = [str(path) for path in paths if not path.is_file() or path.suffix != ".safetensors"]
    if missing:
        raise DataError("a .safetensors file", missing[0], "Save it with safetensors.torch.save_file.")
    return {path.name: path.resolve() for path in paths}


def _pictures(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    pictures = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file())
    if not pictures:
        raise DataError("pictures in the folder", f"none below {path}", "Name a picture, or another folder.")
    return pictures[:64]


def _check_host(host: str, token: str | None) -> None:
    if host not in (LOOPBACK, "localhost", "::1") and token is None:
        raise DataError(
            "a --token where others can reach the page",
            f"--host {host} without one",
            f"For example --token {secrets.token_urlsafe(16)}",
        )
    if token is not None and (len(token) < 16 or not token.isprintable() or not token.isascii()):
        raise DataError("a token of 16 plain letters or more", f"{len(token)}", "Choose a longer one.")


def _bound(host: str, port: int | None):  # type: ignore[no-untyped-def]
    try:
        return free_port(host, PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise DataError(
                "a free port", f"{port} ({error.strerror})", "Choose another, or leave --port out."
            ) from error
        return free_port(host, 0)

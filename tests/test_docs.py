"""The documentation: links lead somewhere, pages are listed, code runs or names what is there, commands parse."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
PROJECT = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md")
]
RUN = ("your-model.md", "natural.md")
"""Pages whose Python blocks run, in order and in one name space, without data or weights of the reader's. The README's
is run by test_readme.py, features.md's tasks by ``python -m benchmarks.tasks``; all others are checked for names."""


RECORDS = ("results.md",)
"""Pages whose commands are records of what was typed, written by a program."""


def fenced(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language; "" for blocks that name none."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> str:
    """The Python blocks of a page, one after the other."""
    return "\n".join(fenced(page, "python"))


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link, as GitHub and the site spell it."""
    titles = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^(?:.*<)?([\w/\-]+)>?$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    patterns = re.findall(r"^(\w+)\*$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {page.stem for page in PAGES if not page.stem.startswith(tuple(patterns))}
    assert pages - set(listed) - {"index"} == set()
    assert len(listed) == len(set(listed)), "listed twice"


# Python


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_code_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    torch.manual_seed(0)
    exec(compile(blocks(DOCS / name), name, "exec"), space)
    assert torch.isfinite(space["answer"].value).all()


def imported(tree: ast.AST) -> dict[str, Any]:
    """Names that import statements bind, those of sgfi alone; a name that is not there is an error."""
    space: dict[str, Any] = {"sgfi": import_module("sgfi")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sgfi"):
            for alias in node.names:
                try:
                    value = getattr(import_module(str(node.module)), alias.name)
                except AttributeError:
                    value = import_module(f"{node.module}.{alias.name}")
                space[alias.asname or alias.name] = value
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("sgfi."):
                    import_module(alias.name)
    return space


def resolved(node: ast.expr, space: dict[str, Any]) -> Any:
    """What a dotted name stands for; ``None`` for names of the reader's own."""
    if isinstance(node, ast.Name):
        return space.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, space)
        if inspect.ismodule(owner):
            return getattr(owner, node.attr)  # an AttributeError names what the page got wrong
        return getattr(owner, node.attr, None) if inspect.isclass(owner) else None
    return None


def misused(code: str) -> list[str]:
    """Calls of sgfi's functions whose arguments do not fit their signature."""
    tree = ast.parse(code)
    space = imported(tree)
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, space)
        if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
            continue
        function = resolved(node.func, space)
        named = [keyword.arg for keyword in node.keywords if keyword.arg]
        if not callable(function) or any(isinstance(part, ast.Constant) and part.value is ... for part in node.args):
            continue
        try:
            inspect.signature(function).bind_partial(*node.args, **dict.fromkeys(named))
        except TypeError as error:
            wrong.append(f"{ast.unparse(node)}: {error}")
    return wrong


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_code_blocks_name_what_is_there(page: Path) -> None:
    assert misused(blocks(page)) == []


def test_a_wrong_name_or_argument_is_noticed() -> None:
    assert misused("import sgfi\nsgfi.look(model, x, 'a', nonsense=1).save()") == []  # goes on to sgfi.natural
    assert len(misused("from sgfi.inputs import load_model\nload_model('a', sise=3)")) == 1
    with pytest.raises(AttributeError):
        misused("import sgfi\nsgfi.lok(model)")


# Commands


LISTED = "(of a list)"
"""Stands behind the words of a line that goes on, after two spaces, in prose."""


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command in a block, comments and continued lines resolved."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(re.sub(r"(?<=\S)  +(?=[a-z])", " # ... ", line).removeprefix("$ "), comments=True)
        except ValueError:
            continue  # prose with an apostrophe
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words[:1] == ["torchrun"] and "-m" in words:
            words = words[words.index("-m") + 1 :]
        if words and "..." not in words:
            yield words if "# ..." not in re.sub(r"(?<=\S)  +(?=[a-z])", "# ...", line) else [*words, LISTED]


def refused(words: list[str]) -> str:
    """What the command line has against these words; "" where it would run."""
    import typer

    from sgfi.cli.app import app

    command, rest = typer.main.get_command(app), list(words)
    context = command.context_class(command, info_name="sgfi")
    while (
        rest
        and rest[0] not in ("--version", "--install-completion", "--show-completion")
        and hasattr(command, "commands")
    ):
        name, *rest = rest
        if name not in command.commands:
            return f"{' '.join(words)}: no command {name}"
        command = command.commands[name]
    try:
        command.make_context(words[0], rest, parent=context)
    except (Exception, SystemExit) as error:  # typer brings a click of its own, whose classes are private
        message = getattr(error, "format_message", None)
        return f"{' '.join(words)}: {message()}" if message else ""
    return ""


def listed(words: list[str]) -> str:
    """The same for a line of a list of commands, of which only the names are checked."""
    message = refused(words)
    return message if "no command" in message else ""


@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, *PROJECT) if page.name not in RECORDS], ids=lambda page: page.name
)
def test_commands_parse(page: Path) -> None:
    wrong = []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in (
        words
        for language in ("", "console", "bash", "sh")
        for text in fenced(page, language)
        for words in commands(text)
    ):
        if words[0] == "sgfi" and len(words) > 1:
            wrong.append(listed(words[1:-1]) if words[-1] == LISTED else refused(words[1:]))
        elif words[0] == "make" and len(words) > 1 and f"\n{words[1]}:" not in makefile:
            wrong.append(f"no target: {words}")
        elif words[:2] == ["python", "-m"] and words[2].startswith(("benchmarks.", "robustness.")):
            file = ROOT / f"{words[2].replace('.', '/')}.py"
            wrong += [] if file.is_file() else [f"no module: {words}"]
        elif words[0] == "python" and len(words) > 1 and words[1].endswith(".py"):
            wrong += [] if (ROOT / words[1]).is_file() or words[1].count("/") == 0 else [f"no file: {words}"]
    assert [text for text in wrong if text] == []


def test_examples_of_the_help_parse() -> None:
    import typer

    from sgfi.cli.app import app

    seen = 0
    group = typer.main.get_command(app)
    for command in [
        own for top in group.commands.values() for own in (getattr(top, "commands", None) or {"": top}).values()
    ]:
        for words in commands(command.help or ""):
            if words[0] == "sgfi":
                seen += 1
                assert refused(words[1:]) == ""
    assert seen > 30


def test_a_wrong_option_is_noticed() -> None:
    assert refused(["look", "torchvision:resnet18", "cat.jpg", "--qery", "a"]) != ""
    assert refused(["atlas", "maps", "cat.jpg", "--kind", "nonsense"]) != "" and refused(["maps", "info", "m"]) == ""

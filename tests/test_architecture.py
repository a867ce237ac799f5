"""The house: which rooms there are, and that imports point one way through them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sgfi"
TESTS = Path(__file__).resolve().parent
ROOT = ("__init__", "__main__", "errors", "optional", "settings")
"""The only modules outside a room."""
ROOMS = (
    "errors optional settings plugins graph derivatives spectral boundaries inversion natural storage calibration "
    "language inputs evaluation decisions experiments figures report sharing demo explorer cli"
).split()
"""In the order of use: a room may import those before it. The root modules come first."""
EDGES = {"vision"}
"""Names of earlier releases that only pass on: they may import anything, and nothing imports them."""
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS = 400, 60, 7
VAGUE = {"found", "told", "place", "one"}


@dataclass(frozen=True)
class Import:
    """One imported name, wherever in the file it stands (in a function, for type checking)."""

    importer: str
    module: str
    name: str | None
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}" + (f".{self.name}" if self.name else "")


def modules(root: Path) -> dict[str, Path]:
    """Dotted module name -> file."""
    files = {}
    for file in sorted(root.rglob("*.py")):
        parts = ("sgfi", *file.relative_to(root).with_suffix("").parts)
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def imports(name: str, text: str, known: set[str]) -> Iterator[Import]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "sgfi":
                    yield Import(name, alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sgfi":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(name, *((inner, None) if inner in known else (node.module, alias.name)), node.lineno)


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def violations(files: dict[str, str]) -> list[str]:
    """What the import statements of a tree (module name -> text) break."""
    broken = []
    for name, text in files.items():
        for use in imports(name, text, set(files)):
            here, there = room(name), room(use.module)
            if here in EDGES or here == there or not here or name == "sgfi.__main__":
                continue
            if there in EDGES:
                broken.append(f"{use}: a deprecated name")
            elif not there:  # `import sgfi`, the front door: for the edges that people touch
                if ROOMS.index(here) < ROOMS.index("evaluation"):
                    broken.append(f"{use}: the front door from inside")
            elif ROOMS.index(there) > ROOMS.index(here):
                broken.append(f"{use}: {there} comes after {here}")
            if use.name and use.name.startswith("_") and here != there:
                broken.append(f"{use}: a private name of another room")
    return broken


def cycles(files: dict[str, str]) -> list[str]:
    """Modules that import each other, directly or in a circle."""
    edges = {
        name: {use.module for use in imports(name, text, set(files))} & set(files) - {name, "sgfi"}
        for name, text in files.items()
        if not name.endswith("__main__")
    }
    packages = {name for name in files if any(other.startswith(f"{name}.") for other in files)}
    state: dict[str, int] = {}
    circles: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        state[name] = 1
        for other in sorted(edges.get(name, ())):
            if other in packages and name.startswith(f"{other}."):
                circles.append(f"{name} imports its own package {other}")
            elif state.get(other) == 1:
                circles.append(" -> ".join((*path[path.index(other) :], other)) if other in path else other)
            elif other not in state:
                visit(other, (*path, other))
        state[name] = 2

    for name in files:
        if name not in state and room(name) not in EDGES and name != "sgfi":
            visit(name, (name,))
    return circles


def read(root: Path = SOURCE) -> dict[str, str]:
    return {name: file.read_text(encoding="utf-8") for name, file in modules(root).items()}


def functions(text: str) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Every function with its number of lines, the docstring not counted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(getattr(first, "value", None), ast.Constant)
            docs = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node, (node.end_lineno or 0) - node.lineno + 1 - docs


def test_only_five_modules_stand_outside_a_room() -> None:
    assert {file.stem for file in SOURCE.glob("*.py")} == set(ROOT)


def test_every_room_is_in_the_order() -> None:
    folders = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    assert folders <= {*ROOMS, *EDGES}


def test_imports_point_one_way() -> None:
    assert violations(read()) == []


def test_no_module_imports_itself_through_others() -> None:
    assert cycles(read()) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("sgfi.graph.planted", "from sgfi.inversion import Query"),
        ("sgfi.graph.planted", "def f():\n    from sgfi.calibration.calibrate import calibrate"),
        ("sgfi.spectral.planted", "if TYPE_CHECKING:\n    from sgfi.boundaries.plan import Plan"),
        ("sgfi.cli.planted", "from sgfi.storage.folder import _replan"),
        ("sgfi.spectral.planted", "import sgfi"),
        ("sgfi.cli.planted", "from sgfi.vision import load_model"),
    ],
)
def test_a_planted_import_is_found(module: str, line: str) -> None:
    assert violations(read() | {module: line})


def test_a_planted_cycle_is_found() -> None:
    files = {"sgfi": "", "sgfi.graph": "", "sgfi.graph.a": "import sgfi.graph.b", "sgfi.graph.b": "import sgfi.graph.a"}
    assert cycles(files)
    assert not cycles(files | {"sgfi.graph.b": ""})


def test_files_and_functions_stay_small() -> None:
    long = [f"{name}: {text.count(chr(10))} lines" for name, text in read().items() if text.count("\n") > LONGEST_FILE]
    long += [
        f"{name}.{function.name}: {lines} lines"
        for name, text in read().items()
        for function, lines in functions(text)
        if lines > LONGEST_FUNCTION
    ]
    assert long == []


def test_public_calls_take_few_parameters() -> None:
    """The command line's functions are their options and do not count."""
    many = [
        f"{name}.{function.name}: {count}"
        for name, text in read().items()
        if room(name) != "cli"
        for function, _ in functions(text)
        if not function.name.startswith("_") or function.name == "__init__"
        for count in [len(function.args.args) + len(function.args.kwonlyargs) - _bound(function)]
        if count > MOST_PARAMETERS
    ]
    assert many == []


def _bound(function: ast.FunctionDef) -> int:
    """``self`` and ``cls`` are not parameters of a call."""
    return bool(function.args.args and function.args.args[0].arg in ("self", "cls"))


def vague_names(text: str) -> list[str]:
    """Variables and parameters that say that a thing was obtained, not what it is."""
    nodes = list(ast.walk(ast.parse(text)))
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return sorted(VAGUE.intersection(bound + [node.arg for node in nodes if isinstance(node, ast.arg)]))


def test_names_say_what_a_thing_is() -> None:
    files = sorted([*SOURCE.rglob("*.py"), *TESTS.rglob("*.py")])
    vague = {str(file.relative_to(TESTS.parent)): vague_names(file.read_text(encoding="utf-8")) for file in files}
    assert {name: names for name, names in vague.items() if names} == {}


def test_a_planted_vague_name_is_seen() -> None:
    assert vague_names("def find(place):\n    for one in place:\n        found = one") == ["found", "one", "place"]

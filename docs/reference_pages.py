"""The reference: a page for each room of the package with every public name, written when the site is built."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

ROOMS = (
    "natural inversion evaluation inputs language decisions figures report experiments "
    "calibration boundaries graph derivatives spectral storage sharing plugins explorer demo"
).split()
"""What people use first, then what it rests on."""


def modules(room: str) -> list[str]:
    """The room itself where it says what is public; else its modules."""
    package = import_module(f"sgfi.{room}")
    if hasattr(package, "__all__"):
        return [package.__name__]
    folder = Path(str(package.__file__)).parent
    return [f"{package.__name__}.{file.stem}" for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")]


def page(room: str) -> str:
    blocks = "\n".join(
        f".. automodule:: {module}\n   :members:\n   :no-index:\n{_imported(module)}" for module in modules(room)
    )
    return f"# sgfi.{room}\n\n```{{eval-rst}}\n{blocks}```\n"


def _imported(module: str) -> str:
    return "   :imported-members:\n" if hasattr(import_module(module), "__all__") else ""


def write(folder: Path) -> None:
    """One file a room."""
    folder.mkdir(exist_ok=True)
    for room in ROOMS:
        (folder / f"{room}.md").write_text(page(room), encoding="utf-8")

"""``sgfi look | graph | plan | calibrate | invert | atlas | evaluate | decide | coordinates | tokens | maps |
experiment | demo``."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the ``sgfi`` command."""
    try:
        import typer  # noqa: F401
    except ImportError:
        from sgfi.optional import install_hint

        print(f"The command line needs typer. {install_hint('cli')}", file=sys.stderr)
        raise SystemExit(1) from None
    from sgfi.cli.app import app

    app()

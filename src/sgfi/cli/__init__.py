"""``sgfi look | compare | graph | plan | calibrate | invert | atlas | evaluate | decide | coordinates | tokens |
contexts | explore | export | report | maps | moments | recipes | experiment | demo``."""

from __future__ import annotations

import signal
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

    _set_up_process()
    app()


def _set_up_process() -> None:
    """Ended by the system (SIGTERM, SIGHUP) like by Ctrl-C: work is cleaned up and the message says what is kept.

    Names of files that are no UTF-8 are printed as the bytes they are.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup's choice is left alone
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="surrogateescape")

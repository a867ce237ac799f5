"""The explorer inside a notebook: the same page, its messages carried by the kernel instead of a server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import sgfi
from sgfi.errors import QueryError
from sgfi.explorer.inputs import keep_tensor
from sgfi.explorer.lenses import Lens
from sgfi.explorer.live import Conversation
from sgfi.explorer.site import Reply, Site, error_reply
from sgfi.explorer.store import Store
from sgfi.explorer.workspace import Workspace
from sgfi.graph import check_input
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.optional import need


def widget(
    lens: sgfi.Estimator,
    x: Tensor,
    query: str | sgfi.Query | None = None,
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Any:
    """The explorer of one estimator on a batch of inputs ``(B, *input)``, for JupyterLab, VS Code, Colab and marimo.

    ``query`` is what is shown first; ``preprocessing`` says how pictures were prepared (without it, as for ImageNet).
    Needs ``anywidget``, from the extra ``explorer``.
    """
    if isinstance(lens, type) or not callable(getattr(lens, "answer", None)):
        raise QueryError(
            "an estimator", type(lens).__name__, "Pass what sgfi.natural, sgfi.calibrate or sgfi.load gave."
        )
    check_input(lens.graph, x)
    shape = tuple(int(size) for size in x.shape[1:])
    loaded = LoadedModel(lens.graph.model_class.rpartition(".")[2], nn.Identity(), preprocessing, shape)
    kind = "maps" if isinstance(lens, sgfi.MapFamily) else "natural"
    opened = Lens(lens, loaded, loaded.spec, kind, {"source": loaded.spec, "notebook": True})
    folder = tempfile.TemporaryDirectory(prefix="sgfi-widget-")
    workspace = Workspace(Store(Path(folder.name)), [opened])
    for index, row in enumerate(x):
        name = names[index] if index < len(names) else f"input {index}"
        workspace.hold(keep_tensor(workspace.store, row.unsqueeze(0), name))
    start = "" if query is None else f"q={query}"
    shown = _widget_class()(start=start)
    _serve(shown, Site(workspace))
    shown.explorer_folder = folder  # lives as long as the widget
    return shown


@cache
def _widget_class() -> type:
    anywidget, traitlets = need("anywidget", "explorer"), need("traitlets", "explorer")
    static = files("sgfi.explorer").joinpath("static", "assets")

    class ExplorerWidget(anywidget.AnyWidget):  # type: ignore[name-defined]
        _esm = static.joinpath("explorer.js").read_text(encoding="utf-8")
        _css = static.joinpath("explorer.css").read_text(encoding="utf-8")
        start = traitlets.Unicode("").tag(sync=True)

    return ExplorerWidget


def _serve(shown: Any, site: Site) -> None:
    """Answer the page's messages. Replies may come from the worker's thread."""
    talk = Conversation(site, lambda event: shown.send({"live": event}))

    def reply(number: int, answered: Reply) -> None:
        shown.send({"reply": number, "status": answered.status, "type": answered.type}, buffers=[answered.body])

    def heard(_: Any, content: Any, buffers: Sequence[Any]) -> None:
        if not isinstance(content, dict):
            return
        if "live" in content:
            talk.receive(json.dumps(content["live"]))
        elif "upload" in content and buffers:
            added = site.add(bytes(buffers[0]), str(content["upload"]), str(content.get("kind")))
            reply(content["request"], added)
        elif "path" in content:
            path, _, params = str(content["path"]).partition("?")
            ticket = site.request(path, _params(params))
            number = content["request"]

            def settle(future: Any) -> None:
                error = future.exception()
                reply(number, future.result() if error is None else error_reply(error))

            ticket.future.add_done_callback(settle)

    shown.on_msg(heard)
    shown.explorer_site = site


def _params(text: str) -> dict[str, str]:
    from urllib.parse import parse_qsl

    return dict(parse_qsl(text))

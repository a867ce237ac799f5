"""The model traced by ``torch.export``, or an error that says which call of it could not be."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, TextIO

import torch
from torch import fx, nn
from torch.export import Dim, ExportedProgram, export

from sgfi.errors import CaptureError, first_line
from sgfi.graph.arguments import Arguments, Call
from sgfi.graph.names import module_path
from sgfi.graph.programs import derivable_kernels
from sgfi.graph.values import op_name, value

MACHINERY = (
    *("/torch/export/", "/torch/_", "/torch/fx/", "/torch/utils/", "/torch/nn/modules/module.py"),
    *("/sgfi/graph/", "/inspect.py", "/contextlib.py", "<string>"),
)
"""Parts of file names that mark a frame as tracing machinery rather than model code."""
LOGGERS = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch._export",
    "torch._subclasses.fake_tensor",
)
BOUND = re.compile(r"batch = Dim\('batch', max=(\d+)\)|size\(\)\[0\] != (\d{19})")
"""What torch.export says of a forward that takes another way from some batch size on; 2.6 does so of every slice."""
UNTRACED = (
    "Check that the example has a batch axis and the model is not compiled; rewrite data-dependent control flow or "
    "shapes in that call, give further arguments of each sample by name, {name: tensor}, those of all samples with "
    "bound={...} (they must broadcast over the batch), or capture the part of the model you need."
)
FIXED_BATCH = "Use x.shape[0] in place of len(x) and int(x.shape[0]), which are plain numbers. "
aten = torch.ops.aten
DROPOUTS = (aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)
_one_export = Lock()
"""torch.export keeps notes about the one export that runs."""


def exported_program(
    model: nn.Module, how: Arguments, table: Mapping[Any, Callable[..., Any]]
) -> tuple[ExportedProgram, bool]:
    """A functional graph with a dynamic batch, traced with two samples (one would be specialised away).

    ``table`` has other forms of some ops. Also whether the model had to be wrapped, so that weights have a prefix.
    """
    pair, wrapped = how.first(2), not how.plain
    try:
        with _one_export, torch.no_grad(), derivable_kernels, warnings.catch_warnings(), _quiet(), unchanged(model):
            warnings.simplefilter("ignore")
            try:
                program = _traced(Call(model, how) if wrapped else model, pair, table)
            except Exception as error:
                most = BOUND.search(str(error))
                wrapped = wrapped or "not a known type" in str(error)  # it returns a dataclass
                if most is None and "not a known type" not in str(error):
                    raise
                free = Dim("batch", max=min(int(most.group(1) or most.group(2)), 2**31)) if most else Dim("batch")
                program = _traced(Call(model, how) if wrapped else model, pair, table, free)
    except Exception as error:  # torch.export raises many kinds; all mean the same to the caller
        raise CaptureError(
            "a model that torch.export can trace with a free batch size",
            f"{type(error).__name__} in {_failed_call(error)}: {first_line(error)}",
            FIXED_BATCH * ("Constraints violated" in str(error)) + UNTRACED,
        ) from error
    if wrapped:
        _strip_prefix(program.graph, "model")
    _refuse_control_flow(program.graph)
    _keep_batch_axes(program.graph)
    return program, wrapped


def _traced(
    module: nn.Module, pair: Arguments, table: Mapping[Any, Callable[..., Any]], batch: Any = None
) -> ExportedProgram:
    tensors, free = (pair.x, *(pair.sides or {}).values()), {0: batch or Dim("batch")}
    shapes: tuple = (free,) if len(tensors) == 1 else (free, tuple(free for _ in tensors[1:]))
    program = export(module, tensors, dynamic_shapes=shapes, strict=False)
    _drop_inactive(program)
    return program.run_decompositions(dict(table))


def _drop_inactive(program: ExportedProgram) -> None:
    """Without dropout that is switched off: up to 2.13, PyTorch would keep a copy of the tensor in its place."""
    for node in list(program.graph.nodes):
        if node.target in DROPOUTS and node.args[2] is False:
            node.replace_all_uses_with(node.args[0])
            program.graph_signature.replace_all_uses(node.name, node.args[0].name)
            program.graph.erase_node(node)


def _refuse_control_flow(graph: fx.Graph) -> None:
    """Ops that hold graphs of their own (``torch.cond``, loops) have no derivative here."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            path = module_path(node)
            raise CaptureError(
                "a model of plain tensor operations",
                f"torch.{op_name(node)}" + (f" in {path!r}" if path else ""),
                "Rewrite the branches with torch.where, or capture the part of the model that is used.",
            )


def _keep_batch_axes(graph: fx.Graph) -> None:
    """A ``squeeze`` takes the axes of size one that the model has; a batch of one sample keeps its axis."""
    for node in graph.nodes:
        if node.target not in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims):
            continue
        sizes = list(value(node.args[0]).shape)  # type: ignore[attr-defined]
        asked = range(len(sizes)) if len(node.args) == 1 else node.args[1]
        dims = [dim % len(sizes) for dim in ([asked] if isinstance(asked, int) else asked)]  # type: ignore[union-attr]
        if any(not isinstance(sizes[dim], int) for dim in dims):
            kept = [dim for dim in dims if isinstance(sizes[dim], int) and sizes[dim] == 1]
            node.target, node.args = aten.squeeze.dims, (node.args[0], kept)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the dumps that torch prints before it raises; whatever else is written goes through."""
    here, stream = get_ident(), sys.stderr

    def relevant(record: logging.LogRecord) -> bool:
        return record.thread != here

    sys.stderr = _WithoutDumps(stream, here)  # type: ignore[assignment]
    for name in LOGGERS:
        logging.getLogger(name).addFilter(relevant)
    try:
        yield
    finally:
        sys.stderr = stream
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(relevant)


class _WithoutDumps:
    """A stream that drops the text of traced graphs, from one thread."""

    def __init__(self, stream: TextIO, thread: int) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        if get_ident() == self._thread and ("def forward(self, arg" in text or not text.strip()):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """What a forward writes on its modules (a cache, a counter) is taken back."""
    before = {module: dict(vars(module)) for module in model.modules()}
    try:
        yield
    finally:
        for module, attributes in before.items():
            now = vars(module)
            for name in [name for name in now if name not in attributes]:
                del now[name]
            now.update({name: value for name, value in attributes.items() if now.get(name) is not value})


def _failed_call(error: BaseException) -> str:
    """The last frame of the traceback that lies in model code."""
    where, trace = "the model's forward", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(part in file.replace("\\", "/") for part in MACHINERY):
            where = f"{trace.tb_frame.f_code.co_name} ({file.rpartition('/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return where


def _strip_prefix(graph: fx.Graph, prefix: str) -> None:
    """Module paths as the caller knows them, without the wrapper's attribute name."""
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (path.removeprefix(prefix).removeprefix("."), kind) for key, (path, kind) in stack.items()
            }

"""Generated calls of the Python surface: every call answers with finite numbers of the right shape, or refuses.

Each parameter is now and then what it should be, or nearly, and otherwise anything at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally

NODES = ("input", "one", "add", "two", "three", "tanh", "nothing", "")
HUGE = st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**30])
SCALARS = (
    st.none()
    | st.booleans()
    | HUGE
    | st.integers(-5, 20)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.sampled_from([object(), int, len, Path("nowhere"), b"\xff", "\0", "\ud800", "x" * 5000, complex(1, 2)])
)
JUNK = st.deferred(
    lambda: st.recursive(
        SCALARS | tensors() | arrays(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=4) | st.integers(-3, 3), inner, max_size=3)
            | st.sets(st.integers(-3, 9) | st.text(max_size=3), max_size=3)
        ),
        max_leaves=5,
    )
)


@dataclass(frozen=True)
class Call:
    """A function with strategies for its parameters, and what an answer must be."""

    name: str
    function: Callable[..., Any]
    given: dict[str, st.SearchStrategy]
    check: Callable[[Any], str] | None = None
    weight: int = 1

    @property
    def strategy(self) -> st.SearchStrategy:
        return st.fixed_dictionaries({}, optional=self.given).map(lambda given: (self, given))


def run(effort: Effort) -> list[Row]:
    with subject.scratch() as folder:
        rows = []
        for names, count, strategy in (
            ("queries", 3000, _queries()),
            ("invert, sweep and look", 3000, _inversions()),
            ("plan", 2000, _plans()),
            ("save and load", 1000, _storage(folder)),
            ("calibrate, prior and natural", 900, _fits(folder)),
            ("capture", 100, _captures()),
        ):
            tally = Tally(f"generated calls: {names}", effort.seed_of(names))
            subject.generate(strategy, effort.count(count), tally.seed, lambda value, tally=tally: _try(tally, *value))
            rows.append(tally.row())
        return rows


def _try(tally: Tally, call: Call, given: dict[str, Any]) -> None:
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in given.items())
    shown = re.sub(r"/[^'\"]*?/?robust-\w+", "<folder>", shown)
    subject.attempt(tally, f"{call.name}({shown})"[:300], lambda: call.function(**given), call.check)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.layout} {value.device}"
    return repr(value)[:80]


def tensors(*shapes: tuple[int, ...]) -> st.SearchStrategy[Tensor]:
    """Of any type, layout and device, with numbers that are none."""
    shape = st.lists(st.integers(0, 9), max_size=5).map(tuple)
    shape = st.sampled_from(shapes) | shape if shapes else shape
    dtype = st.sampled_from([torch.float32, torch.float64, torch.float16, torch.complex64, torch.int64, torch.bool])
    return st.builds(_tensor, shape, dtype, st.sampled_from(["", "", "nan", "inf", "sparse", "meta", "grad", "huge"]))


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, odd: str) -> Tensor:
    if odd == "meta":
        return torch.empty(shape, dtype=dtype, device="meta")
    tensor = torch.arange(int(np.prod(shape, dtype=int)), dtype=torch.float32).reshape(shape).sin()
    if odd in ("nan", "inf") and tensor.numel():
        tensor = tensor.flatten().index_fill(0, torch.tensor([0]), float(odd)).reshape(shape)
    tensor = (tensor * 1e30 if odd == "huge" else tensor).to(dtype)
    if odd == "sparse" and tensor.dim():
        return tensor.to_sparse()
    return tensor.requires_grad_() if odd == "grad" and tensor.is_floating_point() else tensor


def arrays() -> st.SearchStrategy[np.ndarray]:
    values = st.sampled_from([np.zeros(0), np.arange(3), np.array([1.5]), np.array("x"), np.array([{}], dtype=object)])
    return values


def mostly(valid: st.SearchStrategy) -> st.SearchStrategy:
    """What it should be, three times in four."""
    return st.one_of(valid, valid, valid, JUNK)


INPUTS = st.sampled_from([subject.inputs(1), subject.inputs(3), subject.inputs(2)[:0]]) | tensors((2, 3, 8, 8))
TARGETS = st.none() | st.sampled_from(NODES)
CHANNELS = st.none() | st.lists(st.integers(-1, 6), max_size=4) | st.integers(-1, 6)
COORDS = st.none() | st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), max_size=3)
STAGES = st.sampled_from(["raw", "first", "final", "Final"])
QUERIES = st.builds(sgfi.Query, TARGETS, CHANNELS, COORDS)
TERMINALS = st.none() | tensors((1, 4, 4, 4), (3, 4, 4, 4), (2, 4, 4, 4), (1, 1, 4, 4, 4))


def _queries() -> st.SearchStrategy:
    node = subject.graph().nodes["three"]
    texts = st.text("three:@0123456789,;-. é", max_size=20) | st.from_regex(r"three:\d{1,30}-\d{1,30}", fullmatch=True)
    given = {"target": mostly(TARGETS), "channels": mostly(CHANNELS), "coords": mostly(COORDS)}

    def masked(**given: Any) -> Tensor:
        return sgfi.Query(**given).mask(node)

    def parsed(text: Any = "three") -> sgfi.Query:
        return sgfi.Query.parse(text)

    return st.one_of(
        Call("Query.mask", masked, given, lambda m: "" if m.shape == (4, 4, 4) and m.any() else "no mask").strategy,
        Call(
            "Query.parse",
            parsed,
            {"text": mostly(texts)},
            lambda query: "" if sgfi.Query.parse(str(query)) == query else "another query when read again",
        ).strategy,
    )


@cache
def _lens() -> sgfi.NaturalInverse:
    return sgfi.natural(subject.graph(), sgfi.prior([subject.inputs(8)]), jacobian="point")


def _inversions() -> st.SearchStrategy:
    estimators = st.sampled_from([subject.family(), subject.family("diagonal"), _lens()])
    common = {"x": mostly(INPUTS), "terminal": mostly(TERMINALS), "stage": mostly(STAGES)}
    single = {"target": mostly(TARGETS), "channels": mostly(CHANNELS), "coords": mostly(COORDS)}

    def invert(estimator: Any = None, x: Any = None, **given: Any) -> list[sgfi.Inverse]:
        x = subject.inputs(1) if x is None else x
        return [sgfi.invert(subject.family() if estimator is None else estimator, x, **given)]

    def sweep(estimator: Any = None, x: Any = None, queries: Any = None, **given: Any) -> list[sgfi.Inverse]:
        x, queries = subject.inputs(1) if x is None else x, [sgfi.Query()] if queries is None else queries
        return sgfi.sweep(subject.family() if estimator is None else estimator, x, queries, **given)

    def look(model: Any = None, x: Any = None, **given: Any) -> list[sgfi.Inverse]:
        x = subject.inputs(1) if x is None else x
        answer = sgfi.look(subject.graph() if model is None else model, x, **{"prior": _lens().prior, **given})
        assert str(answer)
        return [trusted.inverse for trusted in answer.answers]

    def check(inverses: list[sgfi.Inverse]) -> str:
        finite = all(torch.isfinite(inverse.value).all() for inverse in inverses)
        shaped = all(inverse.value.shape[1:] == (3, 8, 8) for inverse in inverses)
        return "" if finite and shaped else "not finite, or of another shape"

    queries = st.lists(mostly(QUERIES), max_size=3)
    asked = (
        st.none() | QUERIES | st.sampled_from(["three:1", "three@1,1", "add", "three:1 + add@2,3", "two:", "three%"])
    )
    looks = {
        "model": mostly(st.sampled_from([subject.graph(), subject.model()])),
        "x": mostly(st.sampled_from([subject.inputs(1), subject.inputs(1)[0]]) | INPUTS),
        "query": mostly(asked | st.lists(asked, max_size=2)),
        "prior": mostly(st.just(_lens().prior)),
        "other": mostly(st.none() | st.just(subject.inputs(2)[1:]) | INPUTS),
        "jacobian": mostly(st.sampled_from(["path", "point", "line"])),
        "ridge": mostly(st.sampled_from([0.01, 0.0, -1.0, float("nan"), float("inf"), 1e300])),
    }
    return st.one_of(
        Call("look", look, looks, check).strategy,
        Call("invert", invert, {"estimator": mostly(estimators), **common, **single}, check).strategy,
        Call("sweep", sweep, {"estimator": mostly(estimators), **common, "queries": mostly(queries)}, check).strategy,
    )


def _plans() -> st.SearchStrategy:
    names = st.lists(st.sampled_from(NODES), max_size=4)
    partitions = st.sampled_from(["singleton", "shared", "blocks2", "blocks" + "9" * 30, "first-apart", "blocks0", "x"])
    operators = st.sampled_from(
        ["full", "diagonal", "gamma", "diagonal+rank2", "diagonal+rank" + "9" * 20, "causal", "causal+2", "", "rank"]
    )

    def plan(graph: Any = None, **given: Any) -> sgfi.Plan:
        return sgfi.plan(subject.graph() if graph is None else graph, **given)

    given = {
        "graph": mostly(st.just(subject.graph())),
        "target": mostly(TARGETS),
        "boundaries": mostly(st.sampled_from(["stage", "full", "none"]) | names),
        "axes": mostly(st.none() | st.dictionaries(st.sampled_from(NODES), st.integers(-2, 5), max_size=2)),
        "partition": mostly(partitions | st.dictionaries(st.sampled_from(NODES), partitions, max_size=2)),
        "operator": mostly(operators | st.dictionaries(st.sampled_from(NODES), operators, max_size=2)),
    }
    return Call("plan", plan, given, lambda found: "" if found.fitted else "a plan of nothing").strategy


def _storage(folder: Path) -> st.SearchStrategy:
    saved = sgfi.save(subject.family(), folder / "saved")
    # Relative, absolute or odd: nothing a trial writes may lie outside the campaign's own folder.
    names = ("a", "b/c", "file", "x" * 300, "saved")
    targets = st.sampled_from([folder / name for name in names])
    (folder / "file").write_text("mine")
    flags = st.booleans() | st.none()

    def save(family: Any = None, path: Any = None, **given: Any) -> Path:
        elsewhere = isinstance(path, (str, bytes, Path)) and not _inside(path, folder)
        path = folder / "a" if path is None or elsewhere else path
        return sgfi.save(subject.family() if family is None else family, path, **given)

    def load(path: Any = None, model: Any = None, **given: Any) -> sgfi.MapFamily:
        return sgfi.load(saved if path is None else path, subject.graph() if model is None else model, **given)

    models = st.sampled_from([subject.graph(), nn.Linear(2, 2), subject.model()])
    paths = st.sampled_from([saved, str(saved), folder, folder / "file", folder / "nowhere"])
    return st.one_of(
        Call(
            "save",
            save,
            {
                "family": mostly(st.sampled_from([subject.family(), subject.family("diagonal")])),
                "path": mostly(targets),
                "overwrite": flags,
                "precision": mostly(st.sampled_from(["full", "half", "int8", "int4"])),
            },
        ).strategy,
        Call(
            "load",
            load,
            {"path": mostly(paths), "model": mostly(models), "verify": flags, "stream": flags, "force": flags},
        ).strategy,
    )


def _inside(path: Any, folder: Path) -> bool:
    try:
        return Path(path).is_relative_to(folder)
    except TypeError:
        return False


def _fits(folder: Path) -> st.SearchStrategy:
    batches = st.lists(mostly(INPUTS), max_size=2) | st.just([subject.inputs(8)])
    numbers = st.sampled_from([0.01, 0.0, -1.0, float("nan"), float("inf"), 1e300, "auto", "0.1", 10**400])

    def calibrate(plan: Any = None, batches: Any = None, **given: Any) -> sgfi.MapFamily:
        batches = [subject.inputs(8)] if batches is None else batches
        return sgfi.calibrate(subject.plan() if plan is None else plan, batches, progress=False, **given)

    def prior(batches: Any = None, **given: Any) -> Any:
        return sgfi.prior([subject.inputs(8)] if batches is None else batches, **given)

    def natural(graph: Any = None, prior: Any = None, **given: Any) -> sgfi.NaturalInverse:
        prior = _lens().prior if prior is None else prior
        return sgfi.natural(subject.graph() if graph is None else graph, prior, **given)

    fit = {
        "plan": mostly(st.sampled_from([subject.plan(), subject.plan("diagonal")])),
        "batches": mostly(batches),
        "ridge": mostly(st.none() | numbers),
        "children": mostly(st.sampled_from([None, "true", "online", "cross-fitted", "honest", "false"])),
        "preset": mostly(st.sampled_from(["paper", "aligned", "best"])),
        "stages": mostly(st.sampled_from([None, 1, 2, 3, "auto", 0, -1, 2.5])),
        "memory": mostly(st.sampled_from([None, "1GiB", "300KB", "1B", 10**30, 0, -5, "x"])),
        "provenance": mostly(st.sampled_from([None, {}, {"data": 3}])),
    }
    return st.one_of(
        Call("calibrate", calibrate, fit).strategy,
        Call("prior", prior, {"batches": mostly(batches)}).strategy,
        Call(
            "natural",
            natural,
            {
                "graph": mostly(st.just(subject.graph())),
                "prior": mostly(st.just(_lens().prior)),
                "jacobian": mostly(st.sampled_from(["path", "point", "line"])),
            },
        ).strategy,
    )


def _captures() -> st.SearchStrategy:
    models = st.sampled_from([subject.model(), nn.Linear(8, 3).eval(), nn.Identity().eval(), nn.Conv2d(3, 2, 3)])
    examples = st.sampled_from([subject.inputs(2), subject.inputs(1), torch.ones(2, 8)]) | tensors((2, 3, 8, 8))

    def capture(model: Any = None, example: Any = None, **given: Any) -> sgfi.TensorGraph:
        example = subject.inputs(2) if example is None else example
        return sgfi.capture(subject.model() if model is None else model, example, **given)

    return Call("capture", capture, {"model": mostly(models), "example": mostly(examples)}).strategy

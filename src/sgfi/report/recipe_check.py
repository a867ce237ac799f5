"""Does a recipe fit a model? Boundaries, axes and self-tests, for whoever writes one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import sgfi
from sgfi.boundaries.recipes import RECIPES, RecipeBoundaries, recipe_boundaries
from sgfi.boundaries.structure import Structure
from sgfi.derivatives import Linearisation, check_graph
from sgfi.derivatives.check import chosen
from sgfi.errors import SgfiError
from sgfi.graph.arguments import Arguments
from sgfi.inputs.loaded import LoadedModel

TOLERANCE = 1e-4
"""Relative: the same product in single precision, in another order."""
SAMPLES = 4


@dataclass(frozen=True)
class SelfTest:
    """One property that a recipe must have on a model."""

    name: str
    passed: bool
    detail: str

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'FAILED'}  {self.name}: {self.detail}"


@dataclass(frozen=True)
class RecipeCheck:
    """What a recipe says about one model, and whether that holds."""

    recipe: str
    source: str
    plan: sgfi.Plan
    tests: tuple[SelfTest, ...]
    remarks: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(test.passed for test in self.tests)

    def __str__(self) -> str:
        head = f"recipe {self.recipe} ({self.source}): {len(self.plan.fitted)} fitted nodes, target {self.plan.target}"
        remarks = [f"remark  {remark}" for remark in self.remarks]
        return "\n".join([head, self.plan.table(), *map(str, self.tests), *remarks])


def check_recipe(loaded: LoadedModel, recipe: str | None = None) -> RecipeCheck:
    """The recipe that applies to a model, or the one named, with self-tests at random inputs.

    *derivatives*: every kind of op against its adjoint and a finite difference. *frontier*: a cotangent carried from
    boundary to boundary arrives at the input as by one backward pass. *round trip*: maps fitted on a few random inputs
    (one number per channel, to stay small) answer the same after they were saved and loaded.
    """
    graph = sgfi.capture(loaded.model, loaded.example, check=False)
    answer = recipe_boundaries(graph, recipe)
    name = answer.recipe
    boundaries = "stage" if recipe is None else f"stage:{recipe}"
    plan = sgfi.plan(graph, boundaries=boundaries)
    small = sgfi.plan(graph, boundaries=boundaries, operator="diagonal", partition="shared")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, *loaded.input_shape, generator=generator).to(loaded.example.dtype)
    around = passed_by(plan)
    tests = (
        _tested("derivatives", lambda: _derivatives(loaded, graph)),
        _tested("frontier", lambda: _frontier(plan, x[:1], around)),
        _tested("round trip", lambda: _round_trip(small, x)),
    )
    plugin = RECIPES.plugin(name)
    source = "sgfi's own" if plugin is None else f"{plugin.package}, {plugin.module}"
    return RecipeCheck(name, source, plan, tests, tuple(_remarks(answer, plan, around)))


def _tested(name: str, run: Callable[[], tuple[bool, str]]) -> SelfTest:
    try:
        return SelfTest(name, *run())
    except SgfiError as error:
        return SelfTest(name, False, str(error))


def _derivatives(loaded: LoadedModel, graph: sgfi.TensorGraph) -> tuple[bool, str]:
    check_graph(graph, loaded.model, Arguments(loaded.example))
    return True, f"{len(chosen(graph, graph.ends()))} kinds of op"


def _frontier(plan: sgfi.Plan, x: Tensor, around: list[str]) -> tuple[bool, str]:
    """Where paths pass by a frontier the two may differ, and the difference is only stated."""
    walked = Linearisation(plan.graph, {name: plan.children(name) for name in plan.fitted}, x)
    whole = Linearisation(plan.graph, {"input": (plan.target,)}, x).at("input")
    target = whole.outputs[0]
    cotangents = {plan.target: torch.randn(target.shape, generator=torch.Generator().manual_seed(1)).to(target)}
    for name in reversed(plan.fitted):
        cotangents[name] = walked.at(name).vjp([cotangents[child] for child in plan.children(name)])
    direct = whole.vjp([cotangents[plan.target]])
    size = float(direct.norm())
    difference = float((cotangents["input"] - direct).norm()) / (size or 1.0)
    detail = f"relative difference to one backward pass {difference:.1e}"
    return size > 0 and (bool(around) or difference <= TOLERANCE), detail if size else "nothing reaches the input"


def passed_by(plan: sgfi.Plan) -> list[str]:
    """Fitted nodes from which a path leads to the target that meets none of their children."""
    structure, names = Structure(plan.graph), []
    for name in plan.fitted:
        children, waiting, seen = set(plan.children(name)), [name], {name}
        while waiting:
            further = set(structure.readers[waiting.pop()]) - children - seen
            seen |= further
            waiting += further
        names += [name] if plan.target in seen else []
    return names


def _round_trip(plan: sgfi.Plan, x: Tensor) -> tuple[bool, str]:
    family = sgfi.calibrate(plan, [x], progress=False)
    before = sgfi.invert(family, x[:1]).value
    with tempfile.TemporaryDirectory() as folder:
        sgfi.save(family, Path(folder) / "maps")
        after = sgfi.invert(sgfi.load(Path(folder) / "maps", plan.graph), x[:1]).value
    finite = bool(before.isfinite().all())
    return finite and before.equal(after), (
        f"{len(plan.fitted)} nodes fitted, saved, loaded; inverses "
        f"{'not finite' if not finite else 'equal' if before.equal(after) else 'differ'}"
    )


def _remarks(answer: RecipeBoundaries, plan: sgfi.Plan, around: list[str]) -> list[str]:
    structure = Structure(plan.graph)
    lost = [name for name in answer.boundaries if name not in plan.boundary and name not in plan.idle]
    bare = [name for name in plan.fitted if not any(structure.separated(name, c) for c in plan.children(name))]
    return [
        *(f"{name} does not reach the target and is no boundary" for name in lost),
        *(f"{name}: in no other boundary's frontier, so it is left out" for name in plan.idle),
        *(f"{name}: no layer between it and its children, so a repair there changes little" for name in bare),
        *(f"{name}: paths to the target pass by its children and are not repaired there" for name in around),
    ]

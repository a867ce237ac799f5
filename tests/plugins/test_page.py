"""docs/plugins.md: the module on the page, installed with the entry points on the page, does what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import sgfi
from sgfi.boundaries.recipes import RECIPES
from sgfi.cli.app import app
from sgfi.derivatives.rules import RULES
from sgfi.errors import DataError, DerivativeError, PlanError
from sgfi.experiments.declaration import declare
from sgfi.experiments.runner import run
from sgfi.graph.axes import AXIS_RULES
from sgfi.inputs import load_model
from sgfi.plugins import PluginWarning
from tests.documented import DOCS, blocks
from tests.plugins.distribution import install, site  # noqa: F401  (a fixture)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
MODULE, CHECK = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def entry_points() -> dict[str, dict[str, str]]:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    sections = re.findall(r'\[project\.entry-points\."([\w.]+)"\]\n((?:.+\n)+)', text)
    return {group: dict(re.findall(r'(\w+) = "([\w:]+)"', lines)) for group, lines in sections}


Toy = Callable[..., None]


@pytest.fixture
def toy(site: Path) -> Toy:  # noqa: F811
    """Install the page's package, with changes to its text."""

    def installed(*changes: tuple[str, str]) -> None:
        text = MODULE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        text = text.replace('"toy::tokens"', f'"toy{abs(hash(site))}::tokens"')  # an op is registered once a process
        install(site, "sgfi-toy", entry_points(), {"sgfi_toy": text})

    return installed


def test_the_page_names_all_five_kinds() -> None:
    assert set(entry_points()) == {f"sgfi.{kind}" for kind in "recipes models axes derivatives measures".split()}


def test_model_recipe_axis_and_derivative_of_the_page(toy: Toy) -> None:
    toy()
    loaded = load_model("toy:small")
    graph = sgfi.capture(loaded.model, loaded.example)
    assert graph.nodes["tokens"].channel_axis == 2 and graph.nodes["tokens"].coord_axes == (1,)
    assert RULES.plugin("tokens") is not None and AXIS_RULES.plugin("tokens") is not None
    plan = sgfi.plan(graph)
    assert plan.mode == "stage:toynet" and plan.boundaries == ("input", "stem", "add")
    assert sgfi.plan(graph, boundaries="stage:toynet").boundaries == plan.boundaries
    assert sgfi.plan(graph, boundaries="stage:generic").mode == "stage:generic"
    exec(CHECK, {})


def test_the_commands_of_the_page(toy: Toy) -> None:
    toy(("return 2\n", "raise OSError('out of order')\n"))
    listed = CliRunner().invoke(app, ["recipes"])
    assert listed.exit_code == 0 and listed.stderr == "5 plug-ins, 0 of them not used\n"
    assert re.search(r"recipe +toynet +sgfi-toy 1.0 +sgfi_toy:toynet", listed.stdout)
    assert re.search(r"recipe +resnet +sgfi ", listed.stdout)
    checked = CliRunner().invoke(app, ["recipes", "check", "toy:small"])
    assert (
        "warning: expected a channel axis of 1 to 2, or None, from the axis rule 'tokens' of sgfi-toy" in checked.stderr
    )
    assert checked.exit_code == 0, checked.output
    assert "recipe toynet (sgfi-toy 1.0, sgfi_toy:toynet)" in checked.stdout
    assert checked.stdout.count("passed") == 3 and "FAILED" not in checked.stdout


def test_the_commands_of_the_page_as_they_stand(toy: Toy) -> None:
    toy()
    (block,) = blocks(DOCS / "plugins.md", "bash")
    codes = [CliRunner().invoke(app, words[1:], catch_exceptions=False).exit_code for words in block.commands()[:2]]
    assert codes == [0, 0]
    foreign = CliRunner().invoke(app, [*block.commands()[2][1:], "--weights", "none", "--size", "32"])
    assert foreign.exit_code == 3 and "got 'stem'" in foreign.stderr, (
        foreign.output
    )  # it does not fit, as the page says


def test_a_measure_of_the_page(toy: Toy, tmp_path: Path) -> None:
    toy()
    rng = np.random.default_rng(0)
    for index in range(12):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"photos/{index}.png")
    photos = str(tmp_path / "photos")
    data = {"calibration": photos, "evaluation": photos, "calibration_count": 8, "evaluation_count": 4}
    declared = {"title": "own", "model": {"spec": "toy:small", "weights": "none"}, "data": data, "resamples": 100}
    (tmp_path / "own.json").write_text(json.dumps({**declared, "measures": {"worst_pixel": {"images": 3}}}))
    tables = run(declare(tmp_path / "own.json"), tmp_path / "work").tables
    scores = tables["worst_pixel"]["as declared"]["final"]
    assert set(scores) == {"largest error", "cosine"} and len(scores["largest error"]["values"]) == 3
    with pytest.raises(DataError, match="imagez"):
        declare(tmp_path / "own.json", {"measures": {"worst_pixel": {"imagez": 3}}})


def test_a_wrong_derivative_names_the_plugin(toy: Toy) -> None:
    toy(("return 2 * t.flatten(3).mT", "return 3 * t.flatten(3).mT"))
    loaded = load_model("toy:small")
    with pytest.raises(DerivativeError, match=r"'tokens' of sgfi-toy 1.0 \(sgfi_toy:tokens_derivative\)"):
        sgfi.capture(loaded.model, loaded.example)


@pytest.mark.parametrize("body", ["raise ZeroDivisionError", "return 'a string'"])
def test_a_failing_derivative_rule_names_the_plugin(toy: Toy, body: str) -> None:
    toy(("    shape = call.at(argument).shape\n", f"    {body}\n"))
    loaded = load_model("toy:small")
    with pytest.raises(DerivativeError, match=r"'tokens' of sgfi-toy"):
        sgfi.capture(loaded.model, loaded.example)


def test_a_failing_recipe_is_left_out_and_is_an_error_by_name(toy: Toy) -> None:
    toy(('return ["stem", "add"]', 'return ["stem", "nowhere"]'))
    loaded = load_model("toy:small")
    graph = sgfi.capture(loaded.model, loaded.example)
    with pytest.warns(PluginWarning, match=r"'toynet' of sgfi-toy.*nowhere"):
        assert sgfi.plan(graph).mode == "stage:generic"
    with pytest.raises(sgfi.SgfiError, match=r"'toynet' of sgfi-toy"):
        sgfi.plan(graph, boundaries="stage:toynet")
    with pytest.raises(PlanError, match=r"Did you mean 'toynet'"):
        sgfi.plan(graph, boundaries="stage:toynets")


def test_a_failing_prefix_names_the_plugin(toy: Toy) -> None:
    toy(
        ("return LoadedModel(", "return list("),
        ("(spec.name, ToyNet(), Preprocessing(size=(16, 16)), (3, 16, 16))", "()"),
    )
    with pytest.raises(DataError, match=r"'toy' of sgfi-toy 1.0.*got ValueError: toy knows 'small'"):
        load_model("toy:large")
    with pytest.raises(DataError, match=r"'toy' of sgfi-toy 1.0.*got a list"):
        load_model("toy:small")
    assert load_model("torchvision:squeezenet1_1", "none").spec == "torchvision:squeezenet1_1"


def test_a_plugin_cannot_take_the_place_of_a_native_recipe(site: Path) -> None:  # noqa: F811
    text = "from sgfi.boundaries.recipes import Recipe\nresnet = other = Recipe('ResNet', lambda s: ['conv1'])\n"
    install(site, "taker", {"sgfi.recipes": {"resnet": "taker:resnet", "other": "taker:other"}}, {"taker": text})
    loaded = load_model("torchvision:resnet18", "none", size=32)
    graph = sgfi.capture(loaded.model, loaded.example, check=False)
    with pytest.warns(PluginWarning, match=r"'resnet' of taker 1.0 \(taker:resnet\), while sgfi has a recipe 'resnet'"):
        plan = sgfi.plan(graph)
    assert plan.mode == "stage:resnet" and len(plan.fitted) == 9
    assert sgfi.plan(graph, boundaries="stage:other").target == "conv1"
    assert [plugin.name for plugin in RECIPES.plugins() if plugin.problem] == ["resnet"]

"""Coordinate queries: grids, the support matrix, its summaries, and exhaustive interventions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import timm
import torch
from torch import nn

import sgfi
from sgfi import decisions
from sgfi.decisions import CoordinateSettings, Split, coord_grid
from sgfi.decisions.coordinates import CoordGrid, Support, patch_mass
from sgfi.decisions.patches import other_cell
from sgfi.errors import DataError, PlanError, QueryError
from sgfi.graph import Node
from tests.decisions.known import PLACE, Known, pictures
from tests.estimators import Backpropagation

EVERYWHERE = CoordGrid("t", (4, 4), 1, tokens=True)


def vit(**options) -> nn.Module:
    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=16, patch_size=4, embed_dim=12, depth=2, num_heads=2, num_classes=5, **options
    ).eval()
    for parameter in model.parameters():  # timm starts the head at zero, which would decide nothing
        nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module")
def tokens() -> sgfi.MapFamily:
    x = torch.randn(48, 3, 16, 16)
    plan = sgfi.plan(sgfi.capture(vit(), x[:2]), target="norm", boundaries=["blocks.0", "blocks.1"])
    return sgfi.calibrate(plan, x.split(16), progress=False)


def node(shape: tuple, channel: int, coords: tuple[int, ...]) -> Node:
    return Node("t", shape, "", "", channel, coords)


# grids


@pytest.mark.parametrize(
    ("tokens", "picture", "shape", "prefix"),
    [
        (50, (224, 224), (7, 7), 1),
        (197, (224, 224), (14, 14), 1),
        (198, (224, 224), (14, 14), 2),  # class and distillation token
        (261, (224, 224), (16, 16), 5),  # class token and four registers
        (196, (224, 224), (14, 14), 0),
        (129, (128, 256), (8, 16), 1),
    ],
)
def test_prefix_tokens_follow_from_the_picture(tokens, picture, shape, prefix) -> None:
    grid = coord_grid(node((None, tokens, 8), 2, (1,)), picture)
    assert (grid.shape, grid.prefix, grid.tokens) == (shape, prefix, True)
    assert grid.coords[0] == (prefix,) and grid.coords[-1] == (tokens - 1,)
    assert coord_grid(node((None, tokens, 8), 2, (1,)), picture, prefix) == grid


def test_maps_are_their_own_grid_in_either_layout() -> None:
    for shape, channel, coords in [((None, 8, 3, 5), 1, (2, 3)), ((None, 3, 5, 8), 3, (1, 2))]:
        grid = coord_grid(node(shape, channel, coords), (96, 160))
        assert grid.shape == (3, 5) and grid.coords[6] == (1, 1) and not grid.tokens
    with pytest.raises(QueryError):
        coord_grid(node((None, 8), 1, ()), (32, 32))
    with pytest.raises(QueryError, match="prefix"):
        coord_grid(node((None, 50, 8), 2, (1,)), (224, 224), prefix=3)


# the support matrix


def test_support_is_the_written_formula() -> None:
    inverses = torch.randn(16, 3, 16, 16, dtype=torch.float64)
    matrix = decisions.support(inverses, EVERYWHERE).matrix
    expected = torch.zeros(16, 16, dtype=torch.float64)
    for q in range(16):
        for r in range(16):
            top, left = 4 * (r // 4), 4 * (r % 4)
            for h in range(top, top + 4):
                for w in range(left, left + 4):
                    expected[q, r] += math.sqrt(sum(float(inverses[q, c, h, w]) ** 2 for c in range(3)))
    expected /= expected.sum(1, keepdim=True)
    torch.testing.assert_close(matrix, expected)
    squared = inverses.square().sum(1)
    assert not torch.allclose(matrix[0, 0], squared[0, :4, :4].sum() / squared[0].sum())  # magnitude, not energy


def test_uneven_pictures_lose_no_mass() -> None:
    inverse = torch.randn(2, 3, 10, 7)
    mass = patch_mass(inverse, (3, 2))
    assert mass.shape == (2, 6)
    torch.testing.assert_close(mass.sum(1), inverse.double().norm(dim=1).sum((1, 2)))


def test_measures_of_known_supports() -> None:
    diagonal = Support(torch.eye(16, dtype=torch.float64), EVERYWHERE).measures()
    assert diagonal == pytest.approx({"self_mass": 1.0, "entropy": 0.0, "radius": 0.0, "local_mass": 1.0}, abs=1e-12)
    flat = Support(torch.full((16, 16), 1 / 16, dtype=torch.float64), EVERYWHERE).measures()
    assert flat["self_mass"] == pytest.approx(1 / 16) and flat["entropy"] == pytest.approx(1.0)
    # 4 corners have 4 cells around them, 8 edges 6, 4 inner cells 9
    assert flat["local_mass"] == pytest.approx((4 * 4 + 8 * 6 + 4 * 9) / 16 / 16)
    pairs = [math.dist(divmod(q, 4), divmod(r, 4)) for q in range(16) for r in range(16)]
    assert flat["radius"] == pytest.approx(np.mean(pairs) / math.dist((0, 0), (3, 3)))
    far = torch.zeros(16, 16, dtype=torch.float64)
    far[0, 15] = 1.0  # one query, all of it in the opposite corner; the others are zero and have no measures
    measures = Support(far, EVERYWHERE).measures()
    assert measures == pytest.approx({"self_mass": 0.0, "entropy": 0.0, "radius": 1.0, "local_mass": 0.0})
    assert math.isnan(Support(torch.zeros(16, 16), EVERYWHERE).measures()["entropy"])


@pytest.fixture(scope="module")
def embedding() -> sgfi.MapFamily:
    plan = sgfi.plan(sgfi.capture(Known().eval(), pictures(2)), target="embed", boundaries=[])
    return sgfi.calibrate(plan, pictures(64).split(16), ridge=1e-8, progress=False)


@pytest.mark.parametrize(("stage", "least"), [("raw", 1.0), ("first", 0.999), ("final", 0.999)])
def test_support_of_a_shallow_patch_embedding_is_diagonal(embedding, stage: str, least: float) -> None:
    grid = coord_grid(embedding.plan.graph.nodes["embed"], (16, 16))
    support = decisions.support(decisions.query_all(embedding, pictures(1, seed=8), grid, stage=stage), grid)
    assert support.matrix.diagonal().min() >= least - 1e-9
    torch.testing.assert_close(support.matrix.sum(1), torch.ones(16, dtype=torch.float64))


def test_one_sweep_gives_what_single_queries_give(tokens) -> None:
    x = torch.randn(1, 3, 16, 16)
    grid = coord_grid(tokens.plan.graph.nodes["blocks.1"], (16, 16))
    together = decisions.query_all(tokens, x, grid)
    alone = [sgfi.invert(tokens, x, "blocks.1", coords=[coord]).value[0] for coord in grid.coords]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(decisions.query_all(tokens, x, grid, chunk=5), together, rtol=1e-3, atol=1e-5)
    with pytest.raises(QueryError, match="one input"):
        decisions.query_all(tokens, torch.cat([x, x]), grid)
    with pytest.raises(QueryError, match="stage"):
        decisions.query_all(tokens, x, grid, stage="last")
    assert torch.backends.mkldnn.enabled  # a sweep's choice of kernels ends with it, also when it fails


# interventions


def test_exhaustive_interventions_find_the_known_position(embedding) -> None:
    graph = embedding.plan.graph
    x = pictures(5, seed=3)
    grid = coord_grid(graph.nodes["embed"], (16, 16))
    split = Split(graph, x, "embed")
    effects = decisions.intervene_all(split, grid)
    at = grid.coords.index(PLACE)
    scores = decisions.coordinates.cell_scores(decisions.rank(graph, x, ["embed"])["embed"], grid)
    assert effects.drop.shape == (16, 5)
    torch.testing.assert_close(effects.drop.T, scores)  # the readout is linear: first order is exact
    others = [q for q in range(16) if q != at]
    assert effects.drop[others].abs().max() == 0 and effects.drop[at].abs().min() > 0


@pytest.mark.parametrize(("options", "prefix"), [({}, 1), ({"reg_tokens": 3}, 4)])
def test_patch_tokens_do_nothing_after_the_last_mixing_when_only_the_class_token_is_read(options, prefix) -> None:
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    model = vit(global_pool="token", **options).double()
    graph = sgfi.capture(model, x[:2])
    null, mixed = Split(graph, x, "norm"), Split(graph, x, "blocks.0")
    grid = coord_grid(null.node, (16, 16))
    assert (grid.prefix, grid.shape) == (prefix, (4, 4))
    assert decisions.intervene_all(null, grid).drop.abs().max() < 1e-12  # float64: nothing but rounding
    assert not decisions.intervene_all(null, grid).flipped.any()
    assert decisions.intervene_all(mixed, coord_grid(mixed.node, (16, 16))).drop.abs().min() > 1e-6
    # the class token itself, which is no cell of the grid, is everything
    cleared = decisions.intervene(null, [decisions.Edit(coords=[0])])
    assert cleared.drop.abs().min() > 1e-3


def test_averaged_tokens_all_matter() -> None:
    x = torch.randn(2, 3, 16, 16)
    graph = sgfi.capture(vit(global_pool="avg", class_token=False), x)
    split = Split(graph, x, "blocks.1")
    grid = coord_grid(split.node, (16, 16))
    assert grid.prefix == 0 and decisions.intervene_all(split, grid).drop.abs().min() > 0


# the whole experiment


def test_the_coordinate_study(tokens) -> None:
    x = torch.randn(4, 3, 16, 16)
    settings = CoordinateSettings(depths=("blocks.0", "norm"), resamples=500)
    study = decisions.coordinate_study(tokens, x, settings, names=["a"])
    early, last = study.depths
    assert [len(depth.supports) for depth in study.depths] == [4, 4] and early.drops.shape == (4, 16)
    assert np.abs(last.drops).max() < 1e-6 * study.scale.min() and study.ranks(last).interval is None
    assert np.abs(early.drops).max() > 1e-3 * study.scale.min() and study.ranks(early).interval is not None
    assert study.effects(early)["top"].interval.clusters == 4
    assert early.matrix.sum(1) == pytest.approx(np.ones(16))
    assert early.picked("top", 0) == int(early.scores[0].argmax())
    record = json.loads(json.dumps(study.as_dict()))
    assert record["inversions"] == record["interventions"] == 2 * 4 * 16
    assert "undefined" in study.tables() and study.tables().count("norm") == 2


def test_the_coordinate_study_takes_any_estimator(embedding) -> None:
    """Backpropagation through a patch embedding stays inside the patch."""
    estimator = Backpropagation(embedding.graph, ("embed",))
    (depth,) = decisions.coordinate_study(estimator, pictures(2, seed=8), CoordinateSettings(resamples=200)).depths
    assert depth.matrix.diagonal() == pytest.approx(np.ones(16))
    assert np.abs(depth.drops).argmax(1).tolist() == [depth.grid.coords.index(PLACE)] * 2


def test_coordinate_settings_are_checked(tokens) -> None:
    with pytest.raises(DataError, match="depths"):
        CoordinateSettings.from_dict({"depth": ["norm"]})
    with pytest.raises(QueryError):
        CoordinateSettings(protocol="median")
    with pytest.raises(QueryError):
        CoordinateSettings(inversions=False, interventions=False)
    x = torch.randn(1, 3, 16, 16)
    with pytest.raises(PlanError):
        decisions.coordinate_study(tokens, x, CoordinateSettings(depths=("head",)))
    with pytest.raises(QueryError, match="means"):
        decisions.coordinate_study(tokens, x, CoordinateSettings(inversions=False, protocol="mean"))
    only = CoordinateSettings(depths=("norm",), interventions=False, resamples=200)
    assert "undefined" not in decisions.coordinate_study(tokens, x, only).tables()


def test_the_random_cell_is_neither_the_top_nor_the_counter() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 4))
    drawn = np.array([other_cell(row, rng) for row in scores])
    assert (drawn != scores.argmax(1)).all() and (drawn != scores.argmin(1)).all()
    assert len({*drawn.tolist()}) == 4  # any of the others
    assert {other_cell(np.array([1.0, 2.0]), rng) for _ in range(20)} == {0, 1}  # there are no others

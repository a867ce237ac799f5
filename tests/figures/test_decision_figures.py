"""Decision and coordinate figures: what is drawn where, and the words that keep the two branches apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

import sgfi
from sgfi import decisions
from sgfi.errors import QueryError
from sgfi.figures.coordinates import cell_decisions, mosaic, query_atlas, support_matrices
from sgfi.figures.decisions import decision_atlas, effects_figure, group_inverses
from sgfi.figures.style import DARK, png
from tests.decisions.known import Around

SETTINGS = decisions.DecisionSettings(depths=("stem", "add"), sizes=(1, 3), repeats=3, curve_repeats=2, resamples=200)


@pytest.fixture(scope="module")
def family() -> sgfi.MapFamily:
    x = torch.randn(24, 3, 8, 8)
    plan = sgfi.plan(sgfi.capture(Around().eval(), x[:2]), target="add", boundaries=["stem"])
    return sgfi.calibrate(plan, x.split(8), progress=False)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def cells(family, x) -> decisions.CoordinateStudy:
    return decisions.coordinate_study(family, x, decisions.CoordinateSettings(depths=("stem", "add"), resamples=200))


def texts(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text().split("\n")) for text in figure.findobj(Text))


def pictures(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.images]


def test_the_atlas_shows_both_branches_and_says_they_are_two(family, x) -> None:
    means = decisions.activation_means(family.plan, [x])
    study = decisions.study(family, x, means, SETTINGS)
    figure = decision_atlas(family, x[:1], study, decisions.gate(study), size=2)
    assert len(pictures(figure)) == 1 + 2 * 3  # the source once, three groups at two depths
    said = texts(figure)
    assert "no inverse is fed back to the model" in said and "intervention branch" in said
    for word in ("source", "top-positive, k=2", "top-negative, k=2", "random, k=2", "deletion curves", "stem", "AUC"):
        assert word in said
    assert png(figure, DARK)[:4] == b"\x89PNG"


def test_the_effects_alone_need_numbers_only(family, x) -> None:
    study = decisions.study(family, x, decisions.activation_means(family.plan, [x]), SETTINGS)
    stored = decisions.Study.from_dict(study.as_dict())
    figure = effects_figure(stored, decisions.gate(stored))
    assert len(figure.axes) == 4 and not pictures(figure)  # two plots at two depths
    said = texts(figure)
    for word in ("stem, ", "add, ", "margin left", "AUC"):
        assert word in said
    for axes in figure.axes[1::2]:  # bands of the curves are not cut off
        low, high = axes.get_ylim()
        bands = [band.get_datalim(axes.transData) for band in axes.collections]
        assert bands and all(low <= band.y0 and band.y1 <= high for band in bands)
    without = replace(stored, depths=tuple(replace(depth, curves={}) for depth in stored.depths))
    assert len(effects_figure(without, decisions.gate(without)).axes) == 2


def test_group_inverses_are_those_of_the_groups(family, x) -> None:
    study = decisions.study(family, x, decisions.activation_means(family.plan, [x]), SETTINGS)
    inverses = group_inverses(family, x[1:2], study, 3)
    scores = decisions.rank(family.plan.graph, x[1:2], ["add"])["add"].channels[0]
    channels, inverse = inverses["add"]["positive"]
    assert channels == sorted(scores.topk(3).indices.tolist())
    torch.testing.assert_close(inverse, sgfi.invert(family, x[1:2], "add", channels).value[0], rtol=1e-3, atol=1e-5)
    with pytest.raises(QueryError, match="one input"):
        group_inverses(family, x, study, 3)


def test_the_query_atlas_holds_every_query_at_its_place(family, x) -> None:
    figure = query_atlas(family, x[:1], ["stem", "add"])
    source, *boards = pictures(figure)
    assert source.shape == (8, 8, 3) and [board.shape for board in boards] == [(78, 78)] * 2
    assert "All 128 coordinate queries" in texts(figure) and "99th percentile" in texts(figure)


def test_a_mosaic_keeps_order_zero_and_gaps() -> None:
    inverses = torch.zeros(6, 1, 4, 4)
    inverses[4] = torch.eye(4)
    board = mosaic(inverses, decisions.CoordGrid("t", (2, 3)), gap=1)
    assert board.shape == (9, 14) and np.isnan(board[4]).all() and np.isnan(board[:, 4]).all()
    assert (board[5:, 5:9] > 0.9).sum() == 4  # the fifth query stands in the second row, second column
    assert (board[:4, :4] == 0.5).all()


def test_support_and_cells(family, x, cells) -> None:
    figure = support_matrices(cells)
    assert len([p for p in pictures(figure) if p.shape == (64, 64)]) == 2
    assert "not attention" in texts(figure) and "radius" in texts(figure)
    figure = cell_decisions(family, x, cells, "add", images=(0, 2))
    assert "No inverse is fed back to the model" in texts(figure) and texts(figure).count("drop ") >= 6
    with pytest.raises(QueryError):
        cell_decisions(family, x, cells, "inner")
    without = decisions.coordinate_study(
        family, x[:1], decisions.CoordinateSettings(depths=("add",), inversions=False, resamples=200)
    )
    with pytest.raises(QueryError):
        support_matrices(without)

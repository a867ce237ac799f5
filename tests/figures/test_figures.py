"""Figures: what is drawn where, by which rule, and nothing shown on a screen."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from torch import nn

import sgfi
from sgfi import figures
from sgfi.errors import QueryError, StoreError
from sgfi.figures.atlases import spread_coords, strongest_channels
from sgfi.figures.coordinates import query_atlas
from sgfi.figures.grids import Cell, Grid, cell_mark, draw_grid
from sgfi.figures.style import DARK, png
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Query, depth_targets
from tests.estimators import Backpropagation

PREPARED = Preprocessing(size=(8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(3, 6, 3, padding=1)
        self.two = nn.Conv2d(6, 4, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x).relu())


@pytest.fixture(scope="module")
def family() -> sgfi.MapFamily:
    torch.manual_seed(0)
    model = Tiny().eval()
    x = torch.randn(24, 3, 8, 8)
    plan = sgfi.plan(sgfi.capture(model, x[:2]), target="two", boundaries=["one"])
    return sgfi.calibrate(plan, x.split(8), progress=False)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8)


def texts(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text().split("\n")) for text in figure.findobj(Text))


def pictures(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.images]


def atlases(family: Estimator, x: torch.Tensor) -> Iterator[Figure]:
    """Every figure that any estimator can fill."""
    shown = {"preprocessing": PREPARED}
    yield figures.depth_ladder(family, x, names=["a", "b"], **shown)
    yield figures.stage_comparison(family, x, names=["a", "b"], **shown)
    yield figures.stage_ladder(family, x[:1], **shown)
    yield figures.channel_grid(family, x[:1], [0, 2], **shown)
    yield figures.channel_groups(family, x[:1], [[0, 1], [2, 3]], **shown)
    yield figures.coordinate_grid(family, x[:1], [(0, 1), (3, 3)], **shown)
    yield figures.image_grid(family, x, Query("two", (1,)), **shown)
    yield figures.zero_target(family, x, **shown)
    yield figures.swap_strip(family, x, **shown)
    yield figures.interpolation_strip(family, x, 4, **shown)
    yield figures.family_plate({"full": family, "again": family}, x, names=["a", "b"], **shown)


def test_all_texts_stay_inside_the_figure_and_apart(family, x) -> None:
    for figure in atlases(family, x):
        figure.canvas.draw()
        boxes = [t.get_window_extent() for t in figure.findobj(Text) if t.get_text() and t.get_visible()]
        width, height = figure.bbox.width, figure.bbox.height
        for box in boxes:
            assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        for i, first in enumerate(boxes):
            for second in boxes[i + 1 :]:
                dx = min(first.x1, second.x1) - max(first.x0, second.x0)
                dy = min(first.y1, second.y1) - max(first.y0, second.y0)
                assert dx <= 1 or dy <= 1, texts(figure)


def test_every_grid_states_its_display_rule(family, x) -> None:
    for figure in atlases(family, x):
        assert "Display: " in texts(figure) and "scale" in texts(figure)


def test_depth_ladder_shows_photograph_and_inverses(family, x) -> None:
    figure = figures.depth_ladder(family, x, preprocessing=PREPARED)
    shown = pictures(figure)
    assert len(shown) == 2 * 3
    photo = PREPARED.denormalise(x[:1])[0].clamp(0, 1).permute(1, 2, 0).numpy()
    assert np.allclose(shown[0], photo, atol=1e-6)
    inverse = sgfi.invert(family, x, target="one").value[1].double().numpy()
    low, high = np.percentile(inverse, (1, 99))
    expected = np.clip((inverse - low) / (high - low), 0, 1).transpose(1, 2, 0)
    assert np.allclose(shown[4], expected, atol=1e-5)


def test_captions_are_the_measured_cosines(family, x) -> None:
    value = sgfi.invert(family, x[:1], channels=[2]).value
    cosine = torch.cosine_similarity(value.flatten(), x[0].flatten(), dim=0)
    assert f":2  cos {cosine:.2f}" in texts(figures.channel_grid(family, x[:1], [2]))


def test_the_queried_cell_is_outlined(family, x) -> None:
    figure = figures.coordinate_grid(family, x[:1], [(1, 3)])
    outlines = list(figure.axes[-1].patches)
    assert outlines[-1].get_bbox().bounds == pytest.approx((5.5, 1.5, 2, 2))  # 4 x 4 cells on 8 x 8 pixels
    assert cell_mark((1, 3), (4, 4)) == (0.25, 0.75, 0.25, 0.25)


def test_swapped_panels_are_the_crossed_inverses(family, x) -> None:
    figure = figures.swap_strip(family, x)
    state = sgfi.invert(family, x[:1]).states["two"]
    moved = sgfi.invert(family, x[1:], terminal=state).value
    to_a, to_b = (torch.cosine_similarity(moved.flatten(), own.flatten(), dim=0) for own in x)
    captions = [axes.get_xlabel() for axes in figure.axes]
    assert captions[3] == f"A {to_a:.2f}  B {to_b:.2f}"
    assert len(captions) == 6 and captions[:2] == ["", ""] and captions[3] != captions[4]


def test_interpolation_begins_with_the_matched_inverse_and_ends_with_the_swapped_one(family, x) -> None:
    swapped = [axes.get_xlabel() for axes in figures.swap_strip(family, x).axes]
    strip = figures.interpolation_strip(family, x, 3)
    captions = [axes.get_xlabel() for axes in strip.axes]
    assert (captions[3], captions[5]) == (swapped[2], swapped[3])
    middle = PREPARED.denormalise(x.mean(0, keepdim=True))[0].clamp(0, 1).permute(1, 2, 0).numpy()
    shown = pictures(figures.interpolation_strip(family, x, 3, preprocessing=PREPARED))
    assert np.allclose(shown[1], middle, atol=1e-6)
    with pytest.raises(QueryError, match="two inputs"):
        figures.swap_strip(family, x[:1])
    with pytest.raises(QueryError, match="two operating points"):
        figures.interpolation_strip(family, x, 1)


def test_zero_target_says_so(family, x) -> None:
    figure = figures.zero_target(family, x)
    assert "exactly zero" in texts(figure)
    assert (pictures(figure)[2] == 0.5).all()


def test_negligible_panels_are_flat_beside_a_real_one() -> None:
    real, noise = torch.randn(3, 6, 6), 1e-8 * torch.randn(3, 6, 6)
    figure = draw_grid(Grid(((Cell(real), Cell(noise)),), reference=float(real.abs().max())))
    assert "negligible" in texts(figure)
    assert np.ptp(pictures(figure)[0]) == 1 and np.ptp(pictures(figure)[1]) == 0


def test_shared_scale_makes_panels_comparable() -> None:
    quiet, loud = torch.randn(3, 9, 9), 10 * torch.randn(3, 9, 9)
    figure = draw_grid(Grid(((Cell(quiet), Cell(loud)),), share="row"))
    assert np.ptp(pictures(figure)[0]) < 0.5 and "one scale per row" in texts(figure)


def test_the_former_dag_figure_names_what_replaces_it() -> None:
    with pytest.raises(AttributeError, match=r"plan\.draw\('dag\.svg'\)"):
        _ = figures.boundary_dag


def test_no_pyplot_figure_is_left_behind(family, x) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    list(atlases(family, x))
    assert pyplot.get_fignums() == before


def test_dark_paper_is_dark(family, x) -> None:
    def corner(data: bytes) -> int:
        return sum(Image.open(io.BytesIO(data)).convert("RGB").getpixel((2, 2)))

    figure = figures.zero_target(family, x)
    assert corner(png(figure)) == 3 * 255 and corner(png(figure, DARK)) < 150


def test_files_are_not_written_over(family, x, tmp_path: Path) -> None:
    figure = figures.zero_target(family, x)
    path = figures.save_figure(figure, tmp_path / "new" / "dag.png")
    with pytest.raises(StoreError):
        figures.save_figure(figure, path)
    figures.save_figure(figure, path, overwrite=True)


def test_choices_of_targets_channels_and_coordinates(family, x) -> None:
    assert depth_targets(family) == ["one", "two"] and depth_targets(family, 1) == ["two"]
    state = sgfi.invert(family, x[:1]).states["two"]
    order = state.square().sum((0, 2, 3)).argsort(descending=True).tolist()
    assert strongest_channels(family, x[:1], None, 2) == order[:2]
    seven = spread_coords((8, 8), 7)
    apart = [max(abs(a - c), abs(b - d)) for i, (a, b) in enumerate(seven) for c, d in seven[i + 1 :]]
    assert len(seven) == 7 and min(apart) >= 2  # no two are neighbours
    assert spread_coords((2, 2), 9) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(spread_coords((3,), 10)) == 3
    with pytest.raises(QueryError):
        spread_coords((), 3)


def test_an_atlas_takes_an_estimator_without_maps(family, x) -> None:
    plain = Backpropagation(family.graph, ("one", "two"))
    assert not hasattr(plain, "plan")
    assert len(list(atlases(plain, x))) == 11
    assert strongest_channels(plain, x[:1], None, 2) == strongest_channels(family, x[:1], None, 2)
    raw = sgfi.invert(family, x, stage="raw").value  # plain backpropagation is what a family calls raw
    assert torch.allclose(sgfi.invert(plain, x).value, raw, atol=1e-6)
    board = np.nan_to_num(pictures(query_atlas(plain, x[:1], ["two"]))[-1], nan=0.5)
    assert board.shape == (4 * 10 - 2, 4 * 10 - 2) and np.ptp(board) == 1


def test_a_look_and_its_fields_say_the_same(family, x) -> None:
    look = figures.Look(view="signed", share="all", columns=2, preprocessing=PREPARED)
    whole = figures.channel_grid(family, x[:1], [0, 1, 2], look=look)
    fields = figures.channel_grid(
        family, x[:1], [0, 1, 2], view="signed", share="all", columns=2, preprocessing=PREPARED
    )
    mixed = figures.channel_grid(family, x[:1], [0, 1, 2], look=replace(look, columns=4), columns=2)
    assert png(whole) == png(fields) == png(mixed) != png(figures.channel_grid(family, x[:1], [0, 1, 2]))
    with pytest.raises(TypeError, match="colums"):
        figures.channel_grid(family, x[:1], [0], colums=2)


def test_one_input_at_a_time_for_query_grids(family, x) -> None:
    with pytest.raises(QueryError, match="one input"):
        figures.channel_grid(family, x, [0])
    with pytest.raises(QueryError, match="at least one"):
        figures.channel_grid(family, x[:1], [])

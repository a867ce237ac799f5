"""Answers on vectors, signals and sequences: what is drawn is the deviation, faded by the share."""

from __future__ import annotations

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.figures.answers import opacity_of
from sgfi.figures.series import FAINTEST, Series
from sgfi.natural import embedding_prior
from sgfi.report.look import Look, look_through


def texts(figure: Figure) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text) if text.get_text()]


@pytest.fixture(scope="module")
def signal() -> Look:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(2, 6, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(6, 4, 3)).eval()
    prior = sgfi.prior([torch.randn(40, 2, 16)], kind="grid", channel_axis=1)
    return sgfi.look(net, torch.randn(1, 2, 16), ["2:1", "2:0@3"], prior=prior, other=torch.randn(1, 2, 16))


def test_a_signal_has_a_line_for_each_channel_faded_by_the_share(signal) -> None:
    figure = signal.figure()
    words = texts(figure)
    assert words.count("input") == words.count("answer") == 2 and "2:1 (4x6)" in words
    assert any("A line is one channel." in text and "Opacity" in text for text in words)
    lines = [part for part in figure.axes[1].collections if isinstance(part, LineCollection)]
    assert len(lines) == 2
    for line, channel in zip(lines, signal.value[0], strict=True):
        drawn = torch.tensor([segment[0][1] for segment in line.get_segments()])
        torch.testing.assert_close(drawn, channel[:-1].double())
    opacity, _ = opacity_of(signal.inverse)
    assert opacity is not None
    least = torch.minimum(opacity[1:], opacity[:-1]).clamp_min(FAINTEST)
    torch.testing.assert_close(torch.tensor(lines[0].get_colors())[:, 3], least.double())


def test_every_text_of_a_signal_stays_on_the_paper(signal) -> None:
    figure = signal.figure(share=False)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    written = [*figure.texts, *(label for axes in figure.axes for label in _seen(axes))]
    boxes = [text.get_window_extent() for text in written]
    assert len(boxes) > 20
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
    assert any("the share was left out" in text for text in texts(figure))


def _seen(axes: Axes) -> list[Text]:
    """Numbers of ticks inside the panel."""
    (low, high), labels = sorted(axes.get_ylim()), axes.get_yticklabels()
    return [label for label in labels if low <= label.get_position()[1] <= high]


def test_a_vector_has_a_bar_for_each_number() -> None:
    torch.manual_seed(0)
    units = torch.tensor([1.0, 1.0, 100.0, 0.1, 1.0])
    prior = sgfi.prior([torch.randn(30, 5) * units])
    look = sgfi.look(nn.Linear(5, 3).eval(), torch.randn(1, 5) * units, "linear:1", prior=prior)
    figure = look.figure()
    heights = torch.tensor([bar.get_height() for bar in figure.axes[1].patches])
    deviation = look.lens.prior.variance.sqrt().double()  # whatever the units
    torch.testing.assert_close(heights, look.value[0].double() / deviation, check_dtype=False)
    shown = torch.tensor([bar.get_height() for bar in figure.axes[0].patches])
    torch.testing.assert_close(shown, (look.x[0] - look.lens.prior.mean).double() / deviation, check_dtype=False)
    assert not any("Opacity" in text for text in texts(figure))  # a vector's share is one number
    assert "<img" in look._repr_html_()


def test_a_sequence_is_drawn_by_length_under_its_tokens() -> None:
    torch.manual_seed(0)
    table = torch.randn(9, 6)
    lens = sgfi.natural(sgfi.capture(nn.Linear(6, 4).eval(), torch.randn(2, 5, 6)), embedding_prior(table, 5))
    look = look_through(lens, table[None, :5], [sgfi.Query("linear", None, [2])])
    named = Look(lens, look.x, look.answers, names=("a", "cat\n", " sat", "an extraordinarily long one", "."))
    figure = named.figure()
    heights = torch.tensor([bar.get_height() for bar in figure.axes[1].patches])
    torch.testing.assert_close(heights, look.value[0].norm(dim=1).double(), check_dtype=False)
    assert heights[2] > 0 and heights[[0, 1, 3, 4]].abs().max() == 0  # a position knows itself alone here
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["a", "cat", "sat", "an extrao…", "."]


def test_what_has_no_figure_is_refused() -> None:
    model = nn.Sequential(nn.Conv3d(2, 3, 3)).eval()
    x = torch.randn(4, 2, 4, 4, 4)
    look = sgfi.look(model, x[:1], "0:1", prior=sgfi.prior([x], kind="grid", channel_axis=1))
    with pytest.raises(QueryError, match="Nothing can be drawn"):
        look.figure()
    assert "<img" not in look._repr_html_()
    curves = Series(torch.zeros(7, 3), 1, torch.ones(7, 3)).curves(torch.ones(7, 3))
    assert curves.shape == (3, 7)  # channels first, wherever they stand

"""Pictures of answers: gain and share said, controls labelled, nothing outside the paper."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import nn

import sgfi
from sgfi.figures import image_grid
from sgfi.figures.answers import GREY, Painter, answer_cell, answer_grid, natural_ladder, opacity_of
from sgfi.figures.grids import cell_mark, query_marks
from sgfi.figures.rows import row_of
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion.directions import Directions
from sgfi.natural import NaturalAnswer

PREPARED = Preprocessing(size=(8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
PAINTER = Painter(torch.zeros(3, 8, 8), PREPARED)


def texts(figure: Figure) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text) if text.get_text()]


@pytest.fixture(scope="module")
def look():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, 2)).eval()
    x, other = torch.randn(2, 1, 3, 8, 8)
    return sgfi.look(model, x, ["2:1", "2:0-2@1,2"], other=other, preprocessing=PREPARED)


def answer(value: torch.Tensor, share: torch.Tensor | None) -> NaturalAnswer:
    known = None if share is None else lambda: share
    return NaturalAnswer(value, {}, sgfi.Query("2"), "final", measure_share=known, measure_detail=known)


def test_a_figure_names_queries_controls_gain_and_share(look) -> None:
    words = texts(look.figure())
    assert words.count("input") == words.count("answer") == 2
    assert words.count("control: random target") == words.count("control: another input's target") == 2
    assert "2:1 (4x4x4)" in words and "2:0-2@1,2 (4x4x4)" in words
    assert sum("detail share up to" in text for text in words) == 2
    for row in look.answers:
        for label, cosine in row.cosines.items():  # each picture's own, signed
            assert any(f"cosine {float(cosine[0]):.2f}" in text for text in words), label
    assert sum("cosine" in text and "picture" not in text for text in words) == 4
    assert any("gain" in text and "share" in text for text in words)
    assert any("Opacity is" in text for text in words)


def test_a_query_of_one_number_is_drawn_with_two_neighbours() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Flatten(), nn.Linear(216, 5)).eval()
    look = sgfi.look(model, torch.randn(1, 3, 8, 8), "2:1", other=torch.randn(1, 3, 8, 8), preprocessing=PREPARED)
    words = texts(look.figure())
    assert words.count("control: neighbour :0") == 1 and sum("control: neighbour" in text for text in words) == 2
    assert not any("another input" in text for text in words)


def test_titles_name_directions_and_the_estimator() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, 2)).eval()
    x, query = torch.randn(2, 3, 8, 8), sgfi.Query("2", None, [(1, 2)], torch.randn(1, 4))
    look = sgfi.look(model, x[:1], query, preprocessing=PREPARED)
    assert any("2%<1 direction in 4 channels>@1,2" in text for text in texts(look.figure()))
    named = Directions(torch.randn(1, 4), "some/folder/sae/", (12,))
    titled = replace(look.answers[0], inverse=replace(look.inverse, query=sgfi.Query("2", None, [(1, 2)], named)))
    assert row_of(titled, look.lens.node("2"), ()).title.startswith("2%sae/:12@1,2")
    words = texts(image_grid(look.lens, x, query))
    assert any("natural inverse, path" in text for text in words) and not any("(G, D)" in text for text in words)


def test_tokens_of_a_square_grid_are_outlined_after_the_class_token() -> None:
    made = sgfi.capture(nn.Conv2d(3, 6, 3).eval(), torch.randn(2, 3, 8, 8)).nodes["conv2d"]
    node = replace(made, shape=(None, 17, 6), channel_axis=2, coord_axes=(1,))
    marks = query_marks(sgfi.Query("blocks", None, [(0,), (7,)]), node, (8, 8))
    assert marks == (cell_mark((1, 2), (4, 4)),)  # token 0 stands nowhere
    with pytest.raises(sgfi.errors.SgfiError, match=r"1 \+ 4 \* row \+ column"):
        sgfi.Query("blocks", None, [(1, 2)]).checked_coords(node)


def test_every_text_stays_on_the_paper(look) -> None:
    figure = look.figure(share=False)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    boxes = [text.get_window_extent() for text in figure.findobj(Text) if text.get_text()]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])


def test_without_the_share_none_is_worked_out(look, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the share was worked out")

    monkeypatch.setattr("sgfi.figures.answers.opacity_of", refuse)
    words = texts(look.figure(share=False))
    assert not any("share up to" in text for text in words) and any("left out" in text for text in words)
    with pytest.raises(AssertionError, match="worked out"):
        look.figure()


def test_opacity_is_the_root_of_the_share_relative_to_its_maximum() -> None:
    share = torch.zeros(1, 8, 8)
    share[0, 0, 0], share[0, 0, 1] = 0.4, 0.1
    value = torch.full((1, 3, 8, 8), 2.0)
    opacity, strongest = opacity_of(answer(value, share))
    assert opacity is not None and strongest == pytest.approx(0.4)
    assert opacity[0, :3].tolist() == pytest.approx([1.0, 0.5, 0.0])
    cell = answer_cell(answer(value, share), PAINTER)
    assert "share up to 0.40" in cell.caption
    assert float(cell.tensor[0, 0, 2]) == GREY and float(cell.tensor[0, 0, 0]) == pytest.approx(1.0)
    assert float(cell.tensor[0, 0, 1]) == pytest.approx(GREY + 0.5 * (1 - GREY))


def test_a_share_of_nothing_is_blank_and_an_unknown_one_fades_nothing() -> None:
    value = torch.full((1, 3, 8, 8), 2.0)
    blank = answer_cell(answer(value, torch.zeros(1, 8, 8)), PAINTER)
    assert (blank.tensor == GREY).all() and "share up to 0.00" in blank.caption
    unknown = answer_cell(answer(value, None), PAINTER)
    assert torch.allclose(unknown.tensor, torch.ones(3, 8, 8)) and unknown.caption == ""


def test_small_answers_are_multiplied_and_say_so() -> None:
    value = torch.full((1, 3, 8, 8), 0.14)  # 0.035 in brightness
    cell = answer_cell(answer(value, None), PAINTER)
    assert cell.caption == "gain 10.0" and torch.allclose(cell.tensor, torch.full((3, 8, 8), 0.85))


def test_a_ladder_of_inputs(look) -> None:
    inverses = [trusted.inverse for trusted in look.answers]
    nodes = [look.lens.node(inverse.query.target) for inverse in inverses]
    figure = natural_ladder(inverses, look.x, PAINTER, nodes, ["cat"])
    assert len(figure.axes) == 3 and {"input", "cat"} <= set(texts(figure))


def test_a_grid_has_a_panel_for_each_query(look) -> None:
    node = look.lens.node(look.inverse.query.target)
    figure = answer_grid(look.lens, look.x, [sgfi.Query(node.name, 0), sgfi.Query(node.name, 1)], PAINTER.preprocessing)
    labels = [axes.get_xlabel().splitlines()[0] for axes in figure.axes]
    assert labels == ["input", ":0", ":1"]

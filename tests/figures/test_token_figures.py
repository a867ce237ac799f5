from __future__ import annotations

import pytest

from sgfi.errors import DataError
from sgfi.figures.style import ACCENT, png
from sgfi.figures.tokens import CUE, Strip, context_matrices, curves, position_matrices, token_strips
from sgfi.language import Context


def test_a_strip_marks_cue_and_query() -> None:
    strip = Strip(["a ", "$b", "supercalifragilistic"], [0.1, 0.2, 0.7], "one", cues=[1], queried=[2])
    figure = token_strips([strip, strip], "title")
    (axes,) = figure.axes
    assert [line.get_color() for line in axes.lines] == [CUE, CUE]
    frames = [patch for patch in axes.patches if not patch.get_fill()]
    assert len(frames) == 2 and len(axes.patches) == 8
    assert frames[0].get_x() == pytest.approx(2.02)
    from matplotlib.colors import to_rgba

    assert frames[0].get_edgecolor() == to_rgba(ACCENT)
    assert png(figure).startswith(b"\x89PNG")
    with pytest.raises(DataError, match="one length"):
        token_strips([strip, Strip(["a"], [1.0])])


def test_matrices_and_curves() -> None:
    interval = {"mean": 0.1, "low": 0.0, "high": 0.2}
    assert "0.500" in position_matrices({"paper": [[0.5, 0.5], [0, 1]]}).axes[0].get_title()
    assert len(curves({"one": {8: interval, 16: interval}, "two": {8: {"mean": 1.0}}}, "k", "drop").axes[0].lines) == 3


def test_contexts_are_rows_with_their_cues_and_roles_marked() -> None:
    def context(word: str, **marked) -> Context:
        return Context(word, (1, 2, 3), ("a", "b", "c"), word, "first", **marked)

    meanings = [context("bank", cues=(0, 1)), context("bank", cues=(1,)), context("bat", cues=(0,))]
    roles = [context("key", roles={"head": 0, "attractor": 1, "auxiliary": 2})]
    shares = [[0.1, 0.2, 0.7]] * 3
    first, second = context_matrices({"words": (shares, meanings), "agreement": (shares[:1], roles)}).axes
    assert first.images[0].get_array().shape == (3, 3)
    cues = next(line for line in first.lines if line.get_label() == "cue")
    assert list(zip(*cues.get_data(), strict=True)) == [(0, 0), (1, 0), (1, 1), (0, 2)]
    assert [tick.get_text() for tick in first.get_yticklabels()] == ["bank", "bat"]
    assert {line.get_label() for line in second.lines} == {"head", "attractor", "auxiliary"}


def test_a_long_name_beside_a_strip_keeps_both_ends_and_fits() -> None:
    figure = token_strips([Strip(["a", "b"], [0.5, 0.5], "lm.model.layers.14.self_attn.o_proj.of.a.long.path:507")])
    label = figure.axes[0].texts[0]
    assert label.get_text().startswith("lm.model") and label.get_text().endswith("path:507")
    figure.draw_without_rendering()
    assert label.get_window_extent().x0 >= 0

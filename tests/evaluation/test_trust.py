"""Controls that are controls: neighbours other than the query itself, noise that differs between tensors."""

from __future__ import annotations

import torch
from torch import nn

import sgfi
from sgfi.evaluation.trust import neighbours, noise_like, trust
from sgfi.graph import Node
from sgfi.natural import NaturalInverse


def lens() -> NaturalInverse:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 3, padding=1)).double().eval()
    return sgfi.natural(sgfi.capture(model, torch.randn(2, 3, 6, 6, dtype=torch.float64)))


def node() -> Node:
    return lens().node("2")


def test_a_query_with_a_star_is_not_its_own_neighbour() -> None:
    row = sgfi.Query.parse("2:1@0,*")
    written = sgfi.Query("2", 1, [(0, column) for column in range(6)])
    assert [set(near.coords or ()) for near in neighbours(row, node())] == [
        set(near.coords or ()) for near in neighbours(written, node())
    ]
    assert neighbours(sgfi.Query.parse("2:1@*,*"), node()) == []


def test_no_neighbours_are_none() -> None:
    x = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    for query in (sgfi.Query("2", 1, [(2, 2)]), sgfi.Query("2", None, [(2, 2)]), sgfi.Query("2", 1)):
        assert neighbours(query, node(), 0) == []
        assert trust(lens(), x, query, count=0).neighbours is None


def test_random_directions_are_no_control_where_they_span_what_was_asked() -> None:
    few, most = (sgfi.Query("2", None, [(2, 2)], torch.eye(4, dtype=torch.float64)[:rows]) for rows in (2, 3))
    assert len(neighbours(few, node())) == 4 and neighbours(most, node()) == []


def test_tensors_of_a_group_are_given_noise_of_their_own() -> None:
    estimator, x = lens(), torch.randn(1, 3, 6, 6, dtype=torch.float64)
    terminals: list[torch.Tensor] = []

    class Kept(NaturalInverse):
        def answer(self, x, queries, terminal=None, stage="final"):
            terminals.append(terminal)
            return super().answer(x, queries, terminal, stage)

    own = Kept(*(getattr(estimator, name) for name in ("graph", "prior", "path", "ridge", "target_value", "solver")))
    trust(own, x, sgfi.Query("0") + sgfi.Query("2"))
    noise = max(terminals, key=torch.Tensor.numel)[1].flatten()  # of the first draw, both tensors in a row
    first, second = noise.chunk(2)
    assert abs(float(torch.cosine_similarity(first, second, 0))) < 0.5
    state, chosen = estimator.state(x, "2"), sgfi.Query("2").selection(node())
    torch.testing.assert_close(noise_like(state, chosen, 3).norm(), state.norm())


def test_an_answer_of_zero_follows_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, padding=1)).eval()
    nn.init.constant_(model[0].bias[2:3], -1e3)  # off everywhere
    graph, x = sgfi.capture(model, torch.randn(2, 3, 8, 8)), torch.randn(2, 3, 8, 8)
    silent, heard = (trust(sgfi.natural(graph), x, sgfi.Query("1", channel)) for channel in (2, 1))
    assert not silent.inverse.value.any() and silent.verdict() == "silent" != heard.verdict()
    assert "registered nothing" in silent.sentence() and "registered nothing" not in heard.sentence()

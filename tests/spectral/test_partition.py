"""Partitions: which bins share one matrix."""

from __future__ import annotations

import pytest
import torch

from sgfi.errors import PlanError
from sgfi.spectral import Basis, Partition


def test_singleton_shared_and_custom() -> None:
    assert Partition.of("singleton", 5).groups.tolist() == [0, 1, 2, 3, 4]
    shared = Partition.of("shared", 5)
    assert shared.count == 1 and shared.sizes.tolist() == [5]
    custom = Partition.of([7, -2, 7, 7, 100], 5)
    assert custom.groups.tolist() == [1, 0, 1, 1, 2] and custom.count == 3 and custom.bins == 5
    assert custom.sizes.tolist() == [1, 3, 1]
    assert [members.tolist() for members in custom.members] == [[1], [0, 2, 3], [4]]


def test_ids_may_have_the_shape_of_the_spectrum() -> None:
    assert Partition.of(torch.tensor([[0, 1, 1], [0, 0, 1]]), 6).groups.tolist() == [0, 1, 1, 0, 0, 1]


def test_blocks_tie_neighbouring_frequencies_and_leave_zero_and_the_highest_alone() -> None:
    line = Partition.of("blocks2", 6, blocks=Basis(1, (2,), (3, 10)).blocks)  # frequencies 0 to 5
    assert [members.tolist() for members in line.members] == [[0], [5], [1, 2], [3, 4]]
    odd = Partition.of("blocks2", 5, blocks=Basis(1, (2,), (3, 9)).blocks)  # 0 to 4: none is its own mirror image
    assert [members.tolist() for members in odd.members] == [[0], [1, 2], [3, 4]]
    tokens = Partition.of("blocks3", 7, blocks=Basis(2, (1,), (7, 3), positional=True).blocks)
    assert [members.tolist() for members in tokens.members] == [[6], [0, 1, 2], [3, 4, 5]]
    plane = Basis(1, (2, 3), (3, 6, 6))  # signed 0 1 2 3 -2 -1 by 0 1 2 3
    blocks = Partition.of("blocks2", 24, blocks=plane.blocks)
    ids = blocks.groups.reshape(6, 4)
    assert len({int(ids[1, 1]), int(ids[2, 2]), int(ids[1, 2]), int(ids[2, 1])}) == 1  # two by two
    assert ids[1, 1] != ids[5, 1] == ids[4, 2]  # negative frequencies are blocks of their own
    assert blocks.count == 12 and blocks.sizes.tolist() == sorted(blocks.sizes.tolist())
    assert Partition.of("blocks1", 24, blocks=plane.blocks).count == 24
    assert Partition.of("blocks9", 1, blocks=Basis(1, (), (5,)).blocks).count == 1


def test_runs_are_neighbouring_groups_of_one_size() -> None:
    partition = Partition.of([0, 1, 2, 2, 3, 3, 4], 7)
    runs = [(span.start, span.stop, bins.tolist()) for span, bins in partition.runs(range(1, 5))]
    assert runs == [(0, 1, [[1]]), (1, 3, [[2, 3], [4, 5]]), (3, 4, [[6]])]


@pytest.mark.parametrize(
    "choice",
    ["singletons", "blocks", "blocks0", "blocks2", [0, 1], [0.0, 1.0, 2.0], torch.zeros(3), [[0], [1, 2]], None, 3],
)
def test_anything_else_is_refused_with_the_node_s_name(choice: object) -> None:
    with pytest.raises(PlanError, match="3 integer group ids for 'conv1'"):
        Partition.of(choice, 3, "conv1")


def test_the_description_tells_custom_partitions_apart() -> None:
    left, right = Partition.of([0, 0, 1], 3), Partition.of([0, 1, 1], 3)
    assert left.description != right.description == Partition.of([3, 9, 9], 3).description
    assert Partition.of("shared", 3).description == {"kind": "shared", "bins": 3, "groups": 1}


def test_rings_hold_frequencies_of_one_length() -> None:
    basis = Basis(1, (2, 3), (3, 8, 6))
    rings = Partition.of("rings", basis.bins, blocks=basis.blocks, rings=basis.rings)
    down = torch.fft.fftfreq(8, 1 / 8).reshape(8, 1).expand(8, 4)
    across = torch.arange(4).expand(8, 4) * (8 / 6)
    lengths = torch.hypot(down, across).reshape(-1).round()
    for members in rings.members:
        assert len(lengths[members].unique()) == 1
    assert rings.count == len(lengths.unique())
    assert torch.equal(Basis(1, (), (5,)).rings(), torch.arange(1))

"""Partitions: which bins share one matrix."""

from __future__ import annotations

import pytest
import torch

from sgfi.errors import PlanError
from sgfi.spectral import Partition


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


@pytest.mark.parametrize("choice", ["singletons", [0, 1], [0.0, 1.0, 2.0], torch.zeros(3), [[0], [1, 2]], None, 3])
def test_anything_else_is_refused_with_the_node_s_name(choice: object) -> None:
    with pytest.raises(PlanError, match="3 integer group ids for 'conv1'"):
        Partition.of(choice, 3, "conv1")


def test_the_description_tells_custom_partitions_apart() -> None:
    one, two = Partition.of([0, 0, 1], 3), Partition.of([0, 1, 1], 3)
    assert one.description != two.description == Partition.of([3, 9, 9], 3).description
    assert Partition.of("shared", 3).description == {"kind": "shared", "bins": 3, "groups": 1}

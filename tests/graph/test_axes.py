"""Channel axes: which op says where they stand, and how they are carried on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.graph import TensorGraph, capture

Case = Callable[[Tensor], Tensor]


class Function(nn.Module):
    def __init__(self, function: Case) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Cases(nn.Module):
    """Many modules or functions of one stem's output: one capture answers for all of them."""

    def __init__(self, stem: nn.Module, cases: Iterable[nn.Module | Case]) -> None:
        super().__init__()
        self.stem = stem
        self.case = nn.ModuleList(case if isinstance(case, nn.Module) else Function(case) for case in cases)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.stem(x)
        return tuple(case(x) for case in self.case)


def axes_of(model: nn.Module, *shape: int) -> TensorGraph:
    return capture(model.eval(), torch.randn(2, *shape))


def wrong(stem: nn.Module, shape: tuple[int, ...], cases: list[tuple[nn.Module | Case, int | None]]) -> list[int]:
    """Places of the cases whose last tensor has another channel axis than expected."""
    nodes = axes_of(Cases(stem, [case for case, _ in cases]), *shape).nodes
    axes = [nodes[f"case.{index}"].channel_axis for index in range(len(cases))]
    return [index for index, (_, axis) in enumerate(cases) if axes[index] != axis]


def on_map(*cases: tuple[nn.Module | Case, int | None]) -> list[int]:
    """Wrong ones among cases of a map (B, 4, 5, 6)."""
    return wrong(nn.Conv2d(3, 4, 1), (3, 5, 6), list(cases))


def on_tokens(*cases: tuple[nn.Module | Case, int | None]) -> list[int]:
    """Wrong ones among cases of a token stream (B, 7, 12)."""
    return wrong(nn.Linear(3, 12), (7, 3), list(cases))


def test_the_op_that_made_a_map_says_where_its_channels_stand() -> None:
    assert not on_map(
        (nn.Conv2d(4, 4, 3), 1),
        (nn.ConvTranspose2d(4, 4, 2), 1),
        (nn.BatchNorm2d(4), 1),
        (nn.GroupNorm(1, 4), 1),
        (nn.LayerNorm([4, 5, 6]), 1),
        (nn.MaxPool2d(2), 1),
        (nn.AvgPool2d(2), 1),
        (nn.AdaptiveAvgPool2d(1), 1),
        (nn.Upsample(scale_factor=2, mode="bilinear"), 1),
        (nn.Upsample(scale_factor=2), 1),
        (nn.Linear(6, 2), 3),
        (nn.LayerNorm(6), 3),
    )


def test_the_op_that_made_a_token_stream_says_where_its_channels_stand() -> None:
    assert not on_tokens(
        (nn.Linear(12, 4), 2),
        (nn.LayerNorm(12), 2),
        (nn.RMSNorm(12), 2),
        (nn.Conv1d(7, 4, 3), 1),
        (nn.BatchNorm1d(7), 1),
        (nn.Sequential(nn.Flatten(), nn.Linear(84, 5)), 1),
    )


@pytest.mark.parametrize(
    ("function", "shape", "axis"),
    [
        (lambda x: F.conv2d(x, torch.ones(2, 3, 1, 1)), (3, 8, 8), 1),
        (lambda x: F.conv2d((x - 0.5) / 0.2, torch.ones(2, 3, 1, 1)), (3, 8, 8), 1),
        (lambda x: F.conv2d(x.permute(0, 3, 1, 2), torch.ones(2, 3, 1, 1)), (8, 8, 3), 3),
        (lambda x: F.conv1d(x * 2, torch.ones(2, 3, 1)), (3, 8), 1),
        (lambda x: F.conv1d(x.transpose(1, 2), torch.ones(2, 3, 1)), (8, 3), 2),
        (lambda x: F.linear(x, torch.ones(2, 3)), (8, 8, 3), 3),
        (lambda x: F.layer_norm(x, (3,)), (8, 3), 2),
        (lambda x: x.flatten(1) * 2, (3, 8, 8), 1),
        (lambda x: x * 2, (8, 3), 2),
        (lambda x: x * 2, (3,), 1),
        (lambda x: F.max_pool2d(x.transpose(0, 1), 2).transpose(0, 1), (3, 8, 8), None),  # the batch is no channels
    ],
)
def test_the_first_reader_says_where_the_input_has_its_channels(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...], axis: int | None
) -> None:
    assert axes_of(Function(function), *shape).input.channel_axis == axis


def test_channels_and_coordinates_of_the_four_common_kinds() -> None:
    class Kinds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.LayerNorm(4)
            self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm(self.conv(x).permute(0, 2, 3, 1))
            return self.head(self.pool(x.permute(0, 3, 1, 2)).flatten(1))

    nodes = axes_of(Kinds(), 3, 5, 6).nodes
    layouts = {name: (node.channel_axis, node.coord_axes, node.channels) for name, node in nodes.items()}
    assert layouts["conv"] == (1, (2, 3), 4)  # a map
    assert layouts["norm"] == (3, (1, 2), 4)  # a channel-last map
    assert layouts["pool"] == (1, (2, 3), 4)  # (B, C, 1, 1)
    assert layouts["head"] == (1, (), 2)  # a vector


def test_axes_of_a_map_are_carried_through_permutes_and_views() -> None:
    assert not on_map(
        (lambda x: x.permute(0, 2, 3, 1), 3),
        (lambda x: x.transpose(1, -1), 3),
        (lambda x: x.flatten(2), 1),
        (lambda x: x.flatten(2).transpose(1, 2), 2),
        (lambda x: x.flatten(2).mT.reshape(-1, 5, 6, 4), 3),
        (lambda x: x.flatten(1), 1),
        (lambda x: x.view(-1, 2, 2, 5, 6).transpose(1, 2).reshape(-1, 4, 5, 6), 1),
        (lambda x: x.unsqueeze(1), 2),
        (lambda x: x.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1), 1),
        (lambda x: x.mean((2, 3))[:, :, None, None], 1),
        (lambda x: F.pixel_shuffle(x, 2), 1),
        (lambda x: F.unfold(x, 2), 1),
    )


def test_axes_of_a_map_are_carried_through_joins_and_cuts() -> None:
    assert not on_map(
        (lambda x: torch.cat([x, x * 2], 1), 1),
        (lambda x: torch.cat([x, x * 2], 3), 1),
        (lambda x: torch.stack([x, x * 2], 1), 2),
        (lambda x: torch.stack([x, x * 2], -1), 1),
        (lambda x: x.split(2, 1)[1], 1),
        (lambda x: x.chunk(2, 2)[0], 1),
        (lambda x: x.unbind(2)[0], 1),
        (lambda x: x.permute(0, 2, 3, 1).unbind(1)[0], 2),
        (lambda x: x[:, :, 0], 1),
        (lambda x: x[:, 0], None),
        (lambda x: x[:, :, ::2, ::2], 1),
        (lambda x: F.pad(x, (1, 1, 1, 1)), 1),
        (lambda x: torch.roll(x, 1, 2), 1),
    )


def test_axes_of_a_map_are_carried_through_reductions_and_gates() -> None:
    assert not on_map(
        (lambda x: x.mean((2, 3)), 1),
        (lambda x: x.mean((2, 3), keepdim=True), 1),
        (lambda x: x.mean(1), None),
        (lambda x: x.permute(0, 2, 3, 1).mean((1, 2)), 1),
        (lambda x: x.permute(0, 2, 3, 1).mean(1), 2),
        (lambda x: x.permute(0, 2, 3, 1).amax(1), 2),
        (lambda x: x.permute(0, 2, 3, 1).max(1).values, 2),
        (lambda x: x.permute(0, 2, 3, 1).max(1, keepdim=True).values, 3),
        (lambda x: x.permute(0, 2, 3, 1).norm(dim=1), 2),
        (lambda x: torch.maximum(x, x * 2), 1),
        (lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(), 1),
    )


def test_axes_of_a_token_stream_are_carried() -> None:
    assert not on_tokens(
        (lambda x: x.transpose(1, 2), 1),
        (lambda x: x.view(-1, 7, 3, 4), 3),
        (lambda x: x.view(-1, 7, 3, 4).transpose(1, 2), 3),
        (lambda x: x.view(-1, 7, 3, 2, 2).permute(2, 0, 3, 1, 4)[0], 3),
        (lambda x: x.view(-1, 7, 3, 4).transpose(1, 2).exp().transpose(1, 2).reshape(-1, 7, 12), 2),
        (lambda x: x.chunk(3, -1)[2], 2),
        (lambda x: x[:, 0], 1),
        (lambda x: x.mean(1), 1),
        (lambda x: torch.cat([x[:, :1], x], 1), 2),
        (lambda x: x.softmax(-1), 2),
        (lambda x: x.transpose(1, 2).reshape(-1, 12, 7, 1), 1),
    )


def heads(x: Tensor) -> Tensor:
    """(B, 7, 12) -> (B, 3, 7, 4)."""
    return x.view(-1, 7, 3, 4).transpose(1, 2)


def test_attention_weights_have_their_heads_for_channels_and_outputs_those_of_the_values() -> None:
    assert not on_tokens(
        (lambda x: heads(x) @ heads(x * 2).mT, 1),
        (lambda x: (heads(x) @ heads(x * 2).mT).softmax(-1), 1),
        (lambda x: torch.einsum("bhqd,bhkd->bhqk", heads(x), heads(x * 2)), 1),
        (lambda x: (heads(x) @ heads(x * 2).mT).softmax(-1) @ heads(x * 3), 3),
        (lambda x: F.scaled_dot_product_attention(heads(x), heads(x * 2), heads(x * 3)), 3),
        (lambda x: torch.einsum("bhqk,bhkd->bhqd", heads(x) @ heads(x * 2).mT, heads(x * 3)), 3),
        (lambda x: x @ (x * 2).mT, None),  # pairs of tokens without heads
        (lambda x: torch.einsum("bic,bjc->bij", x, x * 2), None),
    )


def test_products_with_weights() -> None:
    assert not on_tokens(
        (lambda x: x @ torch.ones(12, 5), 2),
        (lambda x: torch.einsum("bnc,cd->bnd", x, torch.ones(12, 5)), 2),
        (lambda x: torch.einsum("bnc,cd->bdn", x, torch.ones(12, 5)), 1),
        (lambda x: torch.ones(5, 7) @ x, 2),  # from the left: channels stay where they stood
        (lambda x: torch.ones(5, 12) @ x.mT, 1),
        (lambda x: torch.einsum("bnc,mn->bmc", x, torch.ones(5, 7)), 2),
    )


def test_a_sum_follows_the_stream_where_a_token_mixing_branch_disagrees() -> None:
    def branch(x: Tensor) -> Tensor:  # the linear layer puts its channels last: on tokens, once turned back
        return F.linear(x.mT, torch.ones(7, 7)).mT

    assert not on_tokens((branch, 1), (lambda x: x + branch(x), 2), (lambda x: branch(x) + x, 2))


def test_a_batch_folded_into_another_axis_leaves_no_channel_axis_but_comes_back() -> None:
    stem = nn.Conv2d(3, 4, 1)
    nodes = axes_of(Cases(stem, [lambda x: x.permute(0, 2, 3, 1).reshape(-1, 6, 4) * 2]), 3, 5, 6).nodes
    folded = nodes["case.0"]
    assert (folded.shape, folded.channel_axis, folded.coord_axes) == (("5*B", 6, 4), None, ())
    assert not on_map((lambda x: (x.permute(0, 2, 3, 1).reshape(-1, 6, 4) * 2).view(-1, 5, 6, 4), 3))


def test_a_batch_that_moves_away_and_back_keeps_its_channels() -> None:
    nodes = axes_of(Cases(nn.Linear(3, 12), [lambda x: (x.transpose(0, 1) * 2).transpose(0, 1)]), 7, 3).nodes
    moved, back = nodes["case.0.mul"], nodes["case.0"]
    assert (moved.shape, moved.channel_axis) == ((7, None, 12), None)
    assert (back.shape, back.channel_axis) == ((None, 7, 12), 2)


def test_recurrent_outputs_have_their_width_last() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRU(3, 5, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.cell(x)[0] * 2

    node = axes_of(Recurrent(), 7, 3).nodes["mul"]
    assert (node.shape, node.channel_axis) == ((None, 7, 5), 2)

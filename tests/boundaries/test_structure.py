"""Structural questions, each on the smallest model that can get it wrong."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.boundaries.structure import Structure
from sgfi.graph import capture


def structure(model: nn.Module, *shape: int) -> Structure:
    return Structure(capture(model.eval(), torch.randn(2, *shape)))


class Residual(nn.Module):
    """``x + inner(x)``."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Bottleneck(nn.Module):
    """A sum of two convolved branches, then a ReLU."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(inside, outside, 3, 2, 1), nn.BatchNorm2d(outside))
        self.shortcut = nn.Conv2d(inside, outside, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.main(x) + self.shortcut(x))


class TestResidualAdds:
    def test_identity_and_projected_shortcuts_count_before_their_activation(self) -> None:
        net = structure(nn.Sequential(Residual(nn.Conv2d(4, 4, 3, padding=1)), Bottleneck(4, 6)), 4, 8, 8)
        assert net.residual_adds == ("0", "1.add")
        assert net.join_source("0") == "input"
        assert net.join_source("1.add") == "0"

    def test_polynomial_activation_does_not_count(self) -> None:
        class Cubic(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.0447 * x**3)))

        net = structure(nn.Sequential(nn.Linear(6, 6), Cubic(), nn.Linear(6, 6)), 5, 6)
        assert "1.add" in net.order
        assert net.residual_adds == ()

    def test_rotary_embedding_does_not_count(self) -> None:
        class Rotary(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("angle", torch.rand(5, 6))

            def forward(self, q: Tensor) -> Tensor:
                turned = torch.cat([-q[..., 3:], q[..., :3]], dim=-1)
                return q * self.angle.cos() + turned * self.angle.sin()

        net = structure(nn.Sequential(nn.Linear(6, 6), Rotary(), nn.Linear(6, 6)), 5, 6)
        assert net.node("1").op == "add"
        assert net.residual_adds == ()

    def test_weights_added_to_a_stream_do_not_count(self) -> None:
        class Positions(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embed, self.where = nn.Linear(6, 6), nn.Parameter(torch.randn(5, 6))

            def forward(self, x: Tensor) -> Tensor:
                return self.embed(x) + self.where

        assert structure(Positions(), 5, 6).residual_adds == ()

    def test_broadcast_sum_does_not_count(self) -> None:
        class Shifted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.shift = nn.Linear(6, 1)

            def forward(self, x: Tensor) -> Tensor:
                return x + self.shift(x)

        assert structure(Shifted(), 5, 6).residual_adds == ()

    def test_sum_of_pooled_descriptors_in_a_gate_does_not_count(self) -> None:
        class Gate(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.squeeze = nn.Conv2d(4, 4, 1)

            def forward(self, x: Tensor) -> Tensor:
                mean, peak = x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
                return x * torch.sigmoid(self.squeeze(mean) + self.squeeze(peak))

        block = Residual(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), Gate()))
        assert structure(nn.Sequential(block), 4, 8, 8).residual_adds == ("0",)

    def test_parallel_branches_make_one_boundary(self) -> None:
        class Parallel(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm, self.one, self.two = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)

            def forward(self, x: Tensor) -> Tensor:
                y = self.norm(x)
                return self.one(y) + self.two(y) + x

        net = structure(nn.Sequential(Parallel(), nn.LayerNorm(6)), 5, 6)
        assert "0.add" in net.order
        assert net.residual_adds == ("0",)

    def test_averaged_heads_are_left_out_beside_sums_with_coordinates(self) -> None:
        class TwoHeads(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.one, self.two = nn.Linear(6, 3), nn.Linear(6, 3)

            def forward(self, x: Tensor) -> Tensor:
                return (self.one(x[:, 0]) + self.two(x[:, 1])) / 2

        assert structure(nn.Sequential(Residual(nn.Linear(6, 6)), TwoHeads()), 5, 6).residual_adds == ("0",)
        assert structure(TwoHeads(), 5, 6).residual_adds == ("add",)

    def test_product_with_a_bare_parameter_is_a_layer(self) -> None:
        class Product(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.randn(6, 6))

            def forward(self, x: Tensor) -> Tensor:
                return x @ self.weight

        net = structure(Residual(Product()), 5, 6)
        assert net.is_layer("inner")
        assert net.residual_adds == ("add",)


class TestPaths:
    def test_trunk_leaves_out_both_arms_of_a_fork(self) -> None:
        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), Bottleneck(4, 6), nn.Conv2d(6, 2, 1)), 3, 8, 8)
        assert net.trunk("2") == ("input", "0", "1.add", "1", "2")
        assert net.trunk("1.shortcut") == ("input", "0", "1.shortcut")

    def test_common_source_may_be_one_of_them(self) -> None:
        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), Bottleneck(4, 6)), 3, 8, 8)
        assert net.common_source(["1.main.1", "1.shortcut"]) == "0"
        assert net.common_source(["1.main.1", "1.main.0"]) == "1.main.0"

    def test_between_has_the_sink_and_not_the_source(self) -> None:
        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), Bottleneck(4, 6)), 3, 8, 8)
        assert net.between("0", "1.add") == ("1.main.0", "1.main.1", "1.shortcut", "1.add")
        assert net.between("1.shortcut", "1.main.1") == ()

    def test_separated_by_a_layer(self) -> None:
        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1)), 3, 8, 8)
        assert not net.separated("0", "2")
        assert net.separated("2", "3")


class TestModules:
    def test_a_block_called_twice_is_two_blocks(self) -> None:
        class Shared(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.block = Bottleneck(4, 4)

            def forward(self, x: Tensor) -> Tensor:
                return self.block(self.block(x))

        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), Shared()), 3, 8, 8)
        first, second = net.blocks("Bottleneck")
        assert (first.output, second.output) == ("1.block", "1.block_1")
        assert net.block_input(first) == "0"
        assert net.block_input(second) == "1.block"
        assert not set(first.tensors) & set(second.tensors)

    def test_kinds_hold_the_wrapped_model(self) -> None:
        kinds = structure(nn.Sequential(nn.Tanh(), Bottleneck(4, 6)), 4, 8, 8).kinds
        assert {"Sequential", "Bottleneck", "Conv2d", "Tanh"} <= kinds

    def test_block_outputs_are_what_modules_return(self) -> None:
        net = structure(nn.Sequential(Residual(nn.Conv2d(4, 4, 1)), Bottleneck(4, 6)), 4, 8, 8)
        assert net.block_outputs(net.residual_adds) == ("0",)

    def test_largest_kernel(self) -> None:
        assert structure(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, (1, 5))), 3, 8, 8).largest_kernel == 5
        assert structure(nn.Linear(3, 4), 3).largest_kernel == 0

    def test_normed_follows_only_a_sole_reader(self) -> None:
        net = structure(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1)), 3, 8, 8)
        assert net.normed("0") == "1"
        assert net.normed("3") == "3"


class RootMeanSquare(nn.Module):
    """A norm written out, as language models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class RMSNorm(RootMeanSquare):
    """The same under a name that says so."""


class TestFinalNorm:
    def test_norm_with_the_shape_of_the_sum(self) -> None:
        model = nn.Sequential(Residual(nn.Linear(6, 6)), nn.LayerNorm(6), nn.Linear(6, 3))
        assert structure(model, 5, 6).final_norm("0") == "1"

    def test_norm_written_out_is_known_by_its_module(self) -> None:
        for norm, expected in ((RMSNorm(6), "1"), (RootMeanSquare(6), None)):
            model = nn.Sequential(Residual(nn.Linear(6, 6)), norm, nn.Linear(6, 3))
            assert structure(model, 5, 6).final_norm("0") == expected

    def test_norm_behind_a_layer_or_a_pool_is_not_it(self) -> None:
        behind = nn.Sequential(Residual(nn.Linear(6, 6)), nn.Linear(6, 6), nn.LayerNorm(6))
        assert structure(behind, 5, 6).final_norm("0") is None
        pooled = nn.Sequential(Bottleneck(3, 4), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(4))
        assert structure(pooled, 3, 8, 8).final_norm("0.add") is None


class TestLayout:
    def test_tokens_handed_on_as_a_map_stand_as_the_map(self) -> None:
        class Mapped(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.mix, self.out = Residual(nn.Linear(6, 6)), nn.Linear(6, 6)

            def forward(self, x: Tensor) -> Tensor:
                return self.out(self.mix(x).view(-1, 3, 4, 6))

        net = structure(Mapped(), 12, 6)
        assert net.laid_out("mix") == "view"
        assert net.node("view").coord_axes == (1, 2)

    def test_split_into_heads_or_read_twice_stays(self) -> None:
        class Heads(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.view(-1, 12, 2, 3).transpose(1, 2) * 2

        assert structure(nn.Sequential(Residual(nn.Linear(6, 6)), Heads()), 12, 6).laid_out("0") == "0"
        twice = nn.Sequential(Residual(nn.Linear(6, 6)), Residual(nn.Linear(6, 6)))
        assert structure(twice, 12, 6).laid_out("0") == "0"


def test_concatenation_needs_two_branches_and_a_layer() -> None:
    class Fire(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.three = nn.Conv2d(4, 2, 1), nn.Conv2d(4, 3, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.one(x), self.three(x)], 1)

    class Doubled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x.relu()], 1)

    assert structure(nn.Sequential(Fire(), Doubled()), 4, 8, 8).concatenations == ("0",)

"""The cache of a graph: bounded, made once, shared by threads."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.graph.cache import Cache
from sgfi.graph.programs import derivable_kernels
from tests.analytic import tiny


def test_the_entries_used_last_are_kept() -> None:
    cache, made = Cache(most=2), []

    def get(key: str) -> str:
        return cache.get(key, lambda: made.append(key) or key.upper())

    assert [get("a"), get("b"), get("a"), get("c"), get("a")] == ["A", "B", "A", "C", "A"]
    assert made == ["a", "b", "c"] and len(cache) == 2
    get("b")
    assert made == ["a", "b", "c", "b"], "the entry not used for the longest time was dropped"


def test_another_version_replaces_an_entry() -> None:
    cache = Cache()
    assert cache.get("weights", lambda: "old", version=1) == "old"
    assert cache.get("weights", lambda: "never", version=1) == "old"
    assert cache.get("weights", lambda: "new", version=2) == "new"
    assert len(cache) == 1


def test_two_threads_get_one_object() -> None:
    cache = Cache()

    def make() -> object:
        time.sleep(0.02)
        return cache.get("inner", object)  # an entry may need another

    with ThreadPoolExecutor(4) as pool:
        entries = set(pool.map(lambda _: cache.get("outer", make), range(4)))
    assert len(entries) == 1 and len(cache) == 2


def test_threads_invert_at_the_same_time_and_with_a_small_cache() -> None:
    model = tiny("nested")
    x = model.inputs(24)
    graph = sgfi.capture(model, x[:2])
    plan = sgfi.plan(graph, model.target, list(model.boundaries), model.channel_axis)
    family = sgfi.calibrate(plan, x.split(8), progress=False)
    alone = [sgfi.invert(family, sample).value for sample in x[:8].split(1)]
    graph.cache.most = 2
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda sample: sgfi.invert(family, sample).value, x[:8].split(1)))
    assert len(graph.cache) <= 2
    for left, right in zip(alone, together, strict=True):
        assert torch.equal(left, right)


def test_the_fingerprint_follows_the_weights() -> None:
    model = nn.Linear(3, 2).eval()
    graph = sgfi.capture(model, torch.randn(2, 3))
    before, size = graph.fingerprint, len(graph.cache)
    assert graph.fingerprint == before
    with torch.no_grad():
        model.weight.mul_(2)
    changed = graph.fingerprint
    with torch.no_grad():
        model.weight.div_(2)
    assert changed != before == graph.fingerprint and len(graph.cache) == size


def through_data(model: nn.Linear) -> None:
    model.weight.data[0, 0] = 3


def through_numpy(model: nn.Linear) -> None:
    model.bias.detach().numpy()[1] = 3


def through_storage(model: nn.Linear) -> None:
    model.weight.data.flatten()[1:3] = model.weight.data.flatten()[1:3].flip(0)


@pytest.mark.parametrize("write", [through_data, through_numpy, through_storage])
def test_no_way_of_writing_to_a_weight_goes_unseen(write: Callable[[nn.Linear], None]) -> None:
    model, x = nn.Linear(3, 2).eval(), torch.randn(4, 3)
    graph = sgfi.capture(model, x)
    before = graph.fingerprint
    write(model)
    assert graph.fingerprint != before
    assert graph.fingerprint == sgfi.capture(model, x).fingerprint
    torch.testing.assert_close(graph.program(("input",), ("linear",))(x)[0], model(x))


def new_parameter(model: nn.Linear) -> None:
    model.weight = nn.Parameter(torch.ones(2, 3))


def new_data(model: nn.Linear) -> None:
    model.bias.data = torch.ones(2)


@pytest.mark.parametrize(("exchange", "name"), [(new_parameter, "weight"), (new_data, "bias")])
def test_a_weight_that_was_exchanged_is_named(exchange: Callable[[nn.Linear], None], name: str) -> None:
    model, x = nn.Linear(3, 2).eval(), torch.randn(4, 3)
    graph = sgfi.capture(model, x)
    lens = sgfi.natural(graph, sgfi.prior([x]), "point")
    sgfi.invert(lens, x, "linear")
    exchange(model)
    with pytest.raises(QueryError, match=f"'{name}', exchanged"):
        sgfi.invert(lens, x, "linear")


class Adapted(nn.Module):
    """A layer with a low-rank addition; ``weight`` shows that of the layer inside, as PEFT's layers do."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.rank = base, nn.Linear(3, 2)

    @property
    def weight(self) -> nn.Parameter:
        return self.base.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.rank(x)


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_that_was_wrapped_is_named(bias: bool) -> None:
    model, x = nn.Sequential(nn.Linear(3, 2, bias=bias), nn.Tanh()).eval(), torch.randn(4, 3)
    graph = sgfi.capture(model, x)
    graph.check_weights()
    model[0] = Adapted(model[0])  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"'0\.weight', gone since"):
        graph.check_weights()


def test_a_graph_outlives_its_model() -> None:
    model, x = nn.Linear(3, 2).eval(), torch.randn(4, 3)
    lens = sgfi.natural(sgfi.capture(model, x), sgfi.prior([x]), "point")
    before = sgfi.invert(lens, x, "linear").value
    del model
    gc.collect()
    assert torch.equal(sgfi.invert(lens, x, "linear").value, before)


class Attentive(nn.Module):
    """Attention with and without a mask, and an op without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x).unflatten(-1, (2, 4)).transpose(1, 2)
        h = h + torch.nn.functional.scaled_dot_product_attention(h, h.sin(), h)
        h = h + torch.nn.functional.scaled_dot_product_attention(h, h, h, attn_mask=torch.ones(5, 5).tril() > 0)
        return self.out(torch.logcumsumexp(h, 2).transpose(1, 2).flatten(2))


def flags() -> tuple[bool, ...]:
    cuda = torch.backends.cuda
    kernels = (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled())
    return (*kernels, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))


def test_threads_share_both_estimators_and_touch_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Attentive().double().eval(), torch.randn(32, 5, 4, dtype=torch.float64)
    graph = sgfi.capture(model, x[:2])
    family = sgfi.calibrate(sgfi.plan(graph, "out", ["embed"]), x.split(8), progress=False)
    lens = sgfi.natural(graph, sgfi.prior([x]), "path", points=2)
    work = [(each, sample, channel) for each in (family, lens) for sample in x[:6].split(2) for channel in range(3)]

    def answer(item: tuple) -> torch.Tensor:
        estimator, sample, channel = item
        return sgfi.invert(estimator, sample, "out", channels=channel).value

    def refuse(*_: object) -> None:
        pytest.fail("inversion changed the kernels of the whole process")

    before, alone = flags(), list(map(answer, work))
    graph.cache.most = 3
    monkeypatch.setattr("sgfi.graph.programs.sdpa_kernel", refuse)
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(answer, work))
        inside = set(pool.map(lambda _: flags(), range(6)))
    assert all(map(torch.equal, alone, together))
    assert flags() == before and inside == {before}


def test_a_fresh_graph_is_shared_from_its_first_use() -> None:
    """Nothing is prepared by a serial answer first."""
    model, x = Attentive().eval(), torch.randn(6, 5, 4)

    def lens() -> sgfi.NaturalInverse:
        return sgfi.natural(sgfi.capture(model, x[:2]), sgfi.prior([x]), "point")

    fresh, other = lens(), lens()
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda sample: sgfi.invert(fresh, sample, "out").value, x.split(1)))
    alone = [sgfi.invert(other, sample, "out").value for sample in x.split(1)]
    assert all(map(torch.equal, alone, together))


def test_threads_capture_at_the_same_time() -> None:
    before = flags()
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        graphs = list(pool.map(lambda model: sgfi.capture(model, torch.ones(2, 4)), models))
    x = torch.randn(2, 4)
    for model, graph in zip(models, graphs, strict=True):
        torch.testing.assert_close(graph.program(("input",), ("2",))(x)[0], model(x))
    assert flags() == before


def test_the_choice_of_attention_kernels_is_taken_back_after_the_last_thread() -> None:
    def enabled() -> bool:
        return torch.backends.cuda.flash_sdp_enabled()

    def inside(delay: float) -> bool:
        time.sleep(delay)
        with derivable_kernels:
            time.sleep(0.04)
            return enabled()

    before = enabled()
    with ThreadPoolExecutor(2) as pool:
        assert not any(pool.map(inside, (0.0, 0.02)))
    assert enabled() == before

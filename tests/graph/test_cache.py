"""The cache of a graph: bounded, made once, shared by threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import sgfi
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

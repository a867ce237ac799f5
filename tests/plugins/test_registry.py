"""Plug-ins by entry points: found by their metadata, loaded when needed, never in the place of sgfi's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sgfi.errors import PluginError
from sgfi.plugins import PluginWarning, Registry
from tests.plugins.distribution import install, site  # noqa: F401  (a fixture)

GROUP = "sgfi.tested"


def numbers() -> Registry[int]:
    """A kind of entry that is a whole number; sgfi has ``one``."""

    def accept(name: str, given: Any) -> int:
        if type(given) is not int:
            raise TypeError(f"a whole number, not a {type(given).__name__}")
        return given

    registry = Registry("number", GROUP, accept, lambda: ["zero"])
    registry.register("one", 1)
    return registry


def test_without_plugins_it_is_the_mapping_of_its_own() -> None:
    registry = numbers()
    assert dict(registry) == {"one": 1} and len(registry) == 1 and registry.plugins() == []
    assert "two" not in registry and registry.usable("two") is None and registry.plugin("one") is None
    with pytest.raises(KeyError):
        registry["two"]
    with pytest.raises(ValueError, match="a second number named 'one'"):
        registry.register("one", 2)


def test_a_plugin_is_named_by_its_metadata_and_imported_when_needed(site: Path) -> None:  # noqa: F811
    install(site, "more-numbers", {GROUP: {"two": "more_numbers:TWO"}}, {"more_numbers": "TWO = 2"})
    registry = numbers()
    assert "two" in registry and list(registry) == ["one", "two"]
    assert str(registry.plugin("two")) == "'two' of more-numbers 1.0 (more_numbers:TWO)"
    assert registry.versions() == ["'two' of more-numbers 1.0 (more_numbers:TWO)"]
    assert "more_numbers" not in sys.modules
    assert registry["two"] == 2 and registry.usable("two") == 2
    assert "more_numbers" in sys.modules


def test_what_is_installed_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = numbers()
    assert "two" not in registry
    install(tmp_path, "later", {GROUP: {"two": "later_numbers:TWO"}}, {"later_numbers": "TWO = 2"})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry["two"] == 2
    del sys.modules["later_numbers"]


@pytest.mark.parametrize("name", ["one", "zero"])
def test_a_taken_name_is_refused_with_both_holders(name: str, site: Path) -> None:  # noqa: F811
    install(site, "greedy", {GROUP: {name: "greedy:A", "two": "greedy:B"}}, {"greedy": "A, B = 100, 2"}, version="0.3")
    registry = numbers()
    with pytest.warns(PluginWarning, match="greedy 0.3 .greedy:A., while sgfi has a number") as seen:
        assert registry["one"] == 1
    assert len(seen) == 1 and repr(name) in str(seen[0].message)
    assert registry["two"] == 2 and list(registry) == ["one", "two"]
    assert {plugin.name: bool(plugin.problem) for plugin in registry.plugins()} == {name: True, "two": False}


def test_of_two_plugins_with_one_name_neither_is_used(site: Path) -> None:  # noqa: F811
    for package in ("left", "right"):
        install(site, package, {GROUP: {"two": f"{package}_numbers:TWO"}}, {f"{package}_numbers": "TWO = 2"})
    registry = numbers()
    with pytest.warns(PluginWarning, match=r"left 1.0.*right 1.0|right 1.0.*left 1.0"):
        assert "two" not in registry
    with pytest.raises(PluginError, match=r"left 1.0.*right 1.0|right 1.0.*left 1.0"):
        registry["two"]
    assert {"left_numbers", "right_numbers"}.isdisjoint(sys.modules)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no licence\\nmore')", "RuntimeError: no licence"),
        ("TWO = 'two'", "a whole number, not a str"),
        ("THREE = 3", "AttributeError"),
        ("import missing_library_of_nobody", "ModuleNotFoundError"),
    ],
)
def test_a_broken_plugin_is_named_and_the_rest_works(text: str, reason: str, site: Path) -> None:  # noqa: F811
    install(site, "broken", {GROUP: {"two": "broken_numbers:TWO"}}, {"broken_numbers": text})
    install(site, "good", {GROUP: {"three": "good_numbers:THREE"}}, {"good_numbers": "THREE = 3"})
    registry = numbers()
    with pytest.raises(PluginError, match=reason) as error:
        registry["two"]
    assert "'two' of broken 1.0 (broken_numbers:TWO)" in str(error.value)
    with pytest.warns(PluginWarning, match="broken 1.0"):
        assert registry.usable("two") is None
    assert registry.usable("two") is None  # said once
    assert registry["three"] == 3 and registry["one"] == 1
    assert [bool(plugin.problem) for plugin in registry.plugins()] == [False, True]

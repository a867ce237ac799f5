"""Families fetched from a folder, a file server and a hub: only what is needed, nothing that was not checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from PIL import Image

import sgfi
from sgfi.errors import DataError, SgfiError, StoreError
from sgfi.evaluation.quality import quality
from sgfi.evaluation.selectivity import compare
from sgfi.evaluation.trust import trust
from sgfi.sharing import Licences, publish, pull, push_to_hub
from sgfi.sharing.card import active_channels
from sgfi.sharing.pull import StaleCopy
from sgfi.storage import read_manifest
from sgfi.storage.manifest import sealed
from tests.analytic import captured, tiny
from tests.sharing.serving import Files, Handler, HubHandler, Server, commit_of, serving

LICENCES = Licences("apache-2.0", "CC-BY-4.0")


@cache
def family() -> sgfi.MapFamily:
    model = tiny("chain")
    plan = sgfi.plan(captured("chain"), model.target, list(model.boundaries), axes=model.channel_axis)
    return sgfi.calibrate(plan, [model.inputs(12)], progress=False)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("publish")
    Image.new("RGB", (4, 4)).save(folder / "some.png")
    held_out = tiny("chain").inputs(4, seed=5)
    return publish(family(), folder / "out", LICENCES, name="org/chain", held_out=held_out, picture=folder / "some.png")


@pytest.fixture(scope="module")
def files(published: Path) -> Files:
    return {file.name: file.read_bytes() for file in published.iterdir()}


@pytest.fixture
def server(files: Files) -> Iterator[Server]:
    with serving(Handler, {f"maps/{name}": body for name, body in files.items()}) as running:
        yield running


@pytest.fixture
def hub(files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with serving(HubHandler, {"org/chain": {"main": files, commit_of(files): files, "v1": files}}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield running


def shallow() -> str:
    """A boundary in the middle."""
    return family().targets[0]


def check_same(pulled: sgfi.MapFamily, target: str | None = None) -> None:
    x = tiny("chain").inputs(2, seed=9)
    assert torch.equal(sgfi.invert(pulled, x, target).value, sgfi.invert(family(), x, target).value)


def test_the_card_says_what_it_is(published: Path) -> None:
    card = (published / "README.md").read_text()
    for words in (
        "apache-2.0", "CC-BY-4.0", 'sgfi.from_pretrained("org/chain")', "true children, 2 maps a node, ridge 0.01",
        "picture.png", "Means over 4 inputs", "## Limits", family().fingerprint[:16], f"`{family().target}`",
    ):  # fmt: skip
        assert words in card, words
    x, targets = tiny("chain").inputs(4, seed=5), list(family().targets)
    aligned, controlled, selective = (rows_of(card, head) for head in ("pixel cosine", "random", "likeness"))
    assert [row[0] for row in aligned] == [row[0] for row in controlled] == [row[0] for row in selective] == targets
    value = sgfi.invert(family(), x).value
    cosine = torch.cosine_similarity(value.flatten(1), x.flatten(1)).mean()
    error = ((value - x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)).mean()
    assert [float(number) for number in aligned[-1][1:]] == pytest.approx([float(cosine), float(error)], abs=0.006)
    channels = family().node(targets[-1]).channels
    assert active_channels(family(), x, targets[-1]) == list(range(channels))
    checked = trust(family(), x, sgfi.Query(targets[-1], [channels // 2]))
    expected = [float(score.abs().mean()) for score in (checked.random, checked.swapped, checked.neighbours)]
    assert [float(number) for number in controlled[-1][1:]] == pytest.approx(expected, abs=0.006)
    queries = [sgfi.Query(targets[-1], [channel]) for channel in range(channels)]  # fewer than eight: all of them
    beside = compare(family(), x, queries)
    assert [float(number) for number in selective[-1][1:3]] == pytest.approx(
        [float(beside[key].mean()) for key in ("likeness", "excites_itself")], abs=0.006
    )
    assert selective[-1][3] == f"1 in {channels}"


def rows_of(card: str, head: str) -> list[list[str]]:
    """The body of the table whose second column is called so."""
    table = re.search(rf"^\| \w+ \| {head} \|.*\n\|[ |-]+\|\n((?:\|.*\n)+)", card, re.MULTILINE)
    assert table is not None, head
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.group(1).splitlines()]


def test_the_card_has_what_calibration_recorded(published: Path, tmp_path: Path) -> None:
    card = (published / "README.md").read_text()
    assert "Not measured: errors of the nodes on unseen samples" in card and "Learning curve" in card
    missed = family().curve["missed"]
    rows = rows_of(card, f"`{next(iter(missed))}`")
    assert [int(row[0]) for row in rows] == family().curve["samples"]
    assert [float(number) for number in rows[-1][1:]] == pytest.approx([own[-1] for own in missed.values()], abs=0.006)
    model = tiny("chain")
    plan = sgfi.plan(captured("chain"), model.target, list(model.boundaries), axes=model.channel_axis)
    chosen = sgfi.calibrate(plan, [model.inputs(12)], ridge="auto", children="cross-fitted", progress=False)
    bare = publish(replace(chosen, curve={}), tmp_path / "out", LICENCES)
    card = (bare / "README.md").read_text()
    assert "Not measured: a learning curve" in card
    nodes = quality(read_manifest(bare))
    shown = [[node.name, f"{node.seen:.2f}", f"{node.unseen[-1]:.2f}"] for node in nodes]
    assert rows_of(card, "seen") == shown


def test_held_out_pictures_are_drawn_where_that_is_asked_for(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Conv2d(4, 1, 3)).eval()
    x = torch.rand(6, 3, 8, 8)
    small = sgfi.calibrate(sgfi.plan(sgfi.capture(model, x), "2", ["0"]), [x], progress=False)
    folder = publish(small, tmp_path / "out", LICENCES, held_out=x[:2], picture="drawn")
    card = (folder / "README.md").read_text()
    assert "(picture.png)" in card
    with Image.open(folder / "picture.png") as picture:
        assert min(picture.size) > 100 and len(picture.getcolors(1 << 20) or "") > 100
    assert rows_of(card, "likeness")[-1][1:3] == ["not measured"] * 2  # one channel
    quiet = publish(small, tmp_path / "quiet", LICENCES, held_out=x[:2])
    assert "No picture was given" in (quiet / "README.md").read_text() and not [*quiet.glob("*.png")]
    with pytest.raises(StoreError, match="held-out pictures"):
        publish(small, tmp_path / "none", LICENCES, picture="drawn")


def test_a_dead_channel_is_not_asked_about() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3)).eval()
    with torch.no_grad():
        model[0].bias[2] = -100.0
    x = torch.rand(6, 3, 8, 8)
    small = sgfi.calibrate(sgfi.plan(sgfi.capture(model, x), "2", ["1"]), [x], progress=False)
    assert 2 not in active_channels(small, x, "1") and active_channels(small, x, "2") == [0, 1]


def test_a_card_without_held_out_inputs_says_so(tmp_path: Path) -> None:
    folder = publish(family(), tmp_path / "out", LICENCES)
    card = (folder / "README.md").read_text()
    assert "Not measured: no held-out inputs" in card and "picture.png" not in card
    with pytest.raises(StoreError, match="does not exist yet"):
        publish(family(), folder, LICENCES)
    with pytest.raises(StoreError, match="licence of the data"):
        Licences("mit", " ")


def test_a_folder_is_a_source(published: Path, tmp_path: Path) -> None:
    pulled = sgfi.from_pretrained(published, captured("chain"), cache=tmp_path / "cache")
    check_same(pulled)
    assert pull(str(published), tmp_path / "copy") == tmp_path / "copy"
    check_same(sgfi.load(tmp_path / "copy", captured("chain")))


@pytest.mark.parametrize("kept", [0, 1])
def test_a_part_without_its_lengths_still_loads(kept: int, tmp_path: Path) -> None:
    """Lengths belong to targets: a part may have none of them, and is then of the format that has none."""
    target, deep = shallow(), family().target
    fitted = family().plan.toward(target).fitted
    lengths = {deep: dict.fromkeys(family().plan.fitted, 1.1)}
    lengths |= {target: dict.fromkeys(fitted, 1.2)} if kept else {}
    publish(replace(family(), lengths=lengths), tmp_path / "out", LICENCES)
    part = sgfi.load(pull(tmp_path / "out", tmp_path / "part", target=target), captured("chain"))
    assert list(part.lengths) == [target] * kept
    x = tiny("chain").inputs(2, seed=9)
    expected = sgfi.invert(family(), x, target).value * (1.2 if kept else 1.0)
    torch.testing.assert_close(sgfi.invert(part, x).value, expected)


def test_a_file_server_is_a_source_and_is_asked_for_what_a_target_needs(server: Server, tmp_path: Path) -> None:
    address, target, cache_folder = f"{server.address}/maps", shallow(), tmp_path / "cache"
    pulled = sgfi.from_pretrained(address, captured("chain"), target=target, cache=cache_folder)
    assert pulled.target == target and len(pulled.maps) < len(family().maps)
    assert len(server.files()) == 1 + len(pulled.maps)
    check_same(pulled, target)
    server.asked.clear()
    sgfi.from_pretrained(address, captured("chain"), target=target, cache=cache_folder)
    assert server.files() == ["manifest.json"]
    server.asked.clear()
    check_same(
        sgfi.from_pretrained(address, captured("chain"), target=target, cache=cache_folder, offline=True), target
    )
    assert server.asked == []
    check_same(sgfi.from_pretrained(address, captured("chain"), cache=cache_folder))


def test_a_server_that_is_gone(server: Server, tmp_path: Path) -> None:
    address = f"{server.address}/maps"
    pull(address, cache=tmp_path)
    server.content["maps/manifest.json"] = 503
    with pytest.warns(StaleCopy, match="503"):
        check_same(sgfi.from_pretrained(address, captured("chain"), cache=tmp_path))
    with pytest.raises(StoreError, match="nothing is in the cache"):
        pull(address, cache=tmp_path / "other")
    with pytest.raises(StoreError, match="in the cache"):
        pull(address, cache=tmp_path / "other", offline=True)


def test_a_family_that_was_published_again_is_fetched_again(server: Server, tmp_path: Path) -> None:
    address = f"{server.address}/maps"
    pull(address, cache=tmp_path)
    again = publish(family(), tmp_path / "again", LICENCES, precision="half")
    server.content.update({f"maps/{file.name}": file.read_bytes() for file in again.iterdir()})
    assert sgfi.from_pretrained(address, captured("chain"), cache=tmp_path).precision == "half"


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[-1] ^= 1
    file.write_bytes(bytes(body))


@pytest.mark.parametrize("damage", [flip, Path.unlink])
@pytest.mark.parametrize("pattern", ["*.safetensors", "manifest.json"])
def test_a_damaged_cache_is_fetched_again(
    damage: Callable[[Path], None], pattern: str, server: Server, tmp_path: Path
) -> None:
    address = f"{server.address}/maps"
    damage(min(pull(address, cache=tmp_path).glob(pattern)))
    check_same(sgfi.from_pretrained(address, captured("chain"), cache=tmp_path))
    server.asked.clear()
    pull(address, cache=tmp_path)
    assert server.files() == ["manifest.json"]


@pytest.mark.parametrize(
    "address", ["https://exa mple.com/x", "http://[bad", "http://example.com:port/x", "http://a/\xe9"]
)
def test_what_is_no_address_is_named(address: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected an address"):
        pull(address, cache=tmp_path)


class CutHandler(Handler):
    """Announces a chunk that does not come."""

    def get(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"ff\r\nhalf")
        self.close_connection = True


def test_a_reply_that_is_cut_short_is_no_answer(tmp_path: Path) -> None:
    with serving(CutHandler, {}) as cut, pytest.raises(StoreError, match="no answer"):
        pull(f"{cut.address}/maps", cache=tmp_path)


def changed(files: Files, **changes: object) -> bytes:
    return json.dumps(sealed({**json.loads(files["manifest.json"]), **changes})).encode()


@pytest.mark.parametrize("fault", ["gone", "format", "altered", "longer", "outside", "no json", "forbidden"])
def test_hostile_and_broken_sources_leave_nothing_behind(
    fault: str, server: Server, files: Files, tmp_path: Path
) -> None:
    manifest = json.loads(files["manifest.json"])
    entry = manifest["files"]["input"]
    content, words = server.content, {"gone": "no such file", "altered": "checksum", "longer": "at most"}
    if fault == "gone":
        del content[f"maps/{entry['file']}"]
    elif fault == "format":
        content["maps/manifest.json"], words[fault] = changed(files, format=99), "map format"
    elif fault == "altered":
        body = bytearray(files[entry["file"]])
        body[-1] ^= 1
        content[f"maps/{entry['file']}"] = bytes(body)
    elif fault == "longer":
        content[f"maps/{entry['file']}"] = files[entry["file"]] + b"more"
    elif fault == "outside":
        entry["file"], words[fault] = "../../evil", "plain name"
        content["maps/manifest.json"] = json.dumps(sealed(manifest)).encode()
    elif fault == "no json":
        content["maps/manifest.json"], words[fault] = b"<html>", "readable manifest"
    else:
        content["maps/manifest.json"], words[fault] = 403, "login"
    with pytest.raises(StoreError, match=words[fault]):
        pull(f"{server.address}/maps", cache=tmp_path / "cache")
    assert not any((tmp_path / "cache").rglob("*")) if (tmp_path / "cache").exists() else True


def test_another_model_is_refused(published: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the checkpoint the maps were fitted on"):
        sgfi.from_pretrained(published, captured("fork"), cache=tmp_path)
    with pytest.raises(DataError, match="names its model"):
        sgfi.from_pretrained(published, cache=tmp_path)
    with pytest.raises(StoreError, match="a boundary of the family"):
        pull(published, target="nowhere", cache=tmp_path)


def test_a_python_file_that_a_manifest_names_does_not_run(tmp_path: Path) -> None:
    from dataclasses import replace

    named = replace(family(), provenance={"model": {"spec": f"{tmp_path}/evil.py:build"}})
    folder = publish(named, tmp_path / "out", LICENCES)
    with pytest.raises(DataError, match="would be run"):
        sgfi.from_pretrained(folder, cache=tmp_path / "cache")


def test_the_hub_is_a_source_with_pinned_revisions(hub: Server, files: Files, tmp_path: Path) -> None:
    commit = commit_of(files)
    for name in (f"org/chain@{commit}", "org/chain@v1", "org/chain"):
        check_same(sgfi.from_pretrained(name, captured("chain"), cache=tmp_path / "cache"))
    hub.asked.clear()
    pulled = sgfi.from_pretrained("org/chain@v1", captured("chain"), target=shallow(), cache=tmp_path / "other")
    assert {name for name in hub.files() if name.endswith(".safetensors")} == {
        entry["file"] for name, entry in json.loads(files["manifest.json"])["files"].items() if name in pulled.maps
    }


def test_errors_of_the_hub_are_told_apart(hub: Server, files: Files, tmp_path: Path) -> None:
    hub.content["org/empty"] = {"main": {"README.md": b"nothing"}}
    hub.content["org/other"] = {"main": {**files, "manifest.json": changed(files, format=99)}}
    for name, words in (
        ("org/nothing", "none of that name"),
        ("org/chain@v9", "'v9', unknown"),
        ("org/empty", r"no manifest.json in it"),
        ("org/other", "map format"),
        ("org", "where a family is"),
        ("org/chain@", "where a family is"),
    ):
        with pytest.raises(StoreError, match=words):
            pull(name, cache=tmp_path)


def test_pushed_and_pulled(hub: Server, tmp_path: Path) -> None:
    commit = push_to_hub(family(), "org/new", LICENCES)
    assert re.fullmatch("[0-9a-f]{40}", commit) and "README.md" in hub.content["org/new"]["main"]
    check_same(sgfi.from_pretrained(f"org/new@{commit}", captured("chain"), cache=tmp_path / "cache"))
    with pytest.raises(SgfiError, match="the hub to take"):
        push_to_hub(family(), "not a name", LICENCES)


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(StoreError, match="org/name"):
        pull("org/name", cache=tmp_path / "cache")

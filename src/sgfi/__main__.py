"""``python -m sgfi``, also as ``torchrun -m sgfi``."""

from sgfi.cli import main

main()

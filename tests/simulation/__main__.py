"""`PYTHONPATH=tests python -m simulation --seed N`: runs one history again, shrunk if it fails."""

from __future__ import annotations

import argparse
import sys

from simulation.histories import draw, to_json
from simulation.shrink import failure, shrink


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seed", type=int, required=True)
    history = draw(parser.parse_args().seed)
    found = failure(history)
    if found is None:
        print(f"{len(history)} operations, and every invariant holds")
        return 0
    shortest = shrink(found)
    print(shortest.text())
    print(to_json(shortest.history))
    return 1


if __name__ == "__main__":
    sys.exit(main())

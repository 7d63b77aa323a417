"""Lays the sources out as the package they install as, by links, for tools that read files.

The folders at the top of the repository are subpackages of `seamline`, which a type checker cannot
see. `python tests/packaging/link_farm.py DIR` makes DIR/seamline with a link for each of them.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUBPACKAGES = ("connectors", "gateway", "planners", "seam", "sql")


def link(target: pathlib.Path) -> pathlib.Path:
    """Makes the farm afresh and gives the package's folder in it."""
    package = target / "seamline"
    shutil.rmtree(target, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in (ROOT / "client").iterdir():
        if entry.is_dir() or entry.suffix == ".py" or entry.name == "py.typed":
            (package / entry.name).symlink_to(entry)
    for name in SUBPACKAGES:
        (package / name).symlink_to(ROOT / name, target_is_directory=True)
    return package


if __name__ == "__main__":
    link(pathlib.Path(sys.argv[1]))

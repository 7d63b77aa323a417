"""Golden texts: what is expected is in a file; `pytest --rewrite` fills it, people read it."""

from __future__ import annotations

import pathlib


def check(path: pathlib.Path, found: str, *, rewrite: bool) -> None:
    """Compares a text with a file, or writes the file.

    Raises:
        AssertionError: when they differ; `pytest --rewrite` accepts what was found.
    """
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.is_file(), f"{path} is not there: pytest --rewrite makes it"
    assert found == path.read_text(encoding="utf-8"), f"{path.name} says otherwise"

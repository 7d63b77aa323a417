"""What the locks hold: versions, and a hash for every file that may be installed."""

from __future__ import annotations

import pathlib

from packaging.utils import canonicalize_name
from packaging.version import Version

from support.sources import ROOT


def locked(path: pathlib.Path = ROOT / "requirements.lock") -> dict[str, Version]:
    """The versions of a lock, by name.

    Raises:
        AssertionError: one of them has no hash.
    """
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert not [line for line in lines if "--hash=sha256:" not in line]
    pairs = (line.split()[0].split("==") for line in lines)
    return {canonicalize_name(name): Version(version) for name, version in pairs}

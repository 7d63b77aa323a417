"""Checks whether Python and the packages are those that this release was tested with."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from seamline.dbapi.version import VERSION
from seamline.gateway.doctor.findings import Finding, ok, skipped, warning, wrong

_PYTHON = (3, 11)
_DISTRIBUTION = "seamline"
_FOR_OTHERS = frozenset({"dev", "tpc"})
_NEEDED = frozenset({"", "gateway"})
_WITHOUT = {
    "spark": "large scans and tiering need it",
    "delta": "Delta tables need it",
    "cli": "the prompt needs it",
    "sqlalchemy": "SQLAlchemy's dialect needs it",
    "arrow": "Parquet, Arrow and Polars need it",
}


def look() -> Iterator[Finding]:
    """Checks Python, Seamline, and the packages that each extra needs."""
    system = f"{platform.system()} {platform.machine()}"
    version = f"Python {platform.python_version()} on {system}"
    if sys.version_info < _PYTHON:
        yield wrong(version, "Install Python 3.11 or newer.")
    else:
        yield ok(version)
    try:
        requirements = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield warning(f"Seamline {VERSION} runs without being installed", "pip install seamline")
        return
    yield ok(f"Seamline {VERSION}")
    if _installed("sqlglotc") is not None:
        yield wrong(
            "sqlglotc is installed: the gateway cannot extend sqlglot once it is compiled",
            "pip uninstall sqlglotc",
        )
    yield from _of_extras(requirements)


def extra_of(module: str) -> str | None:
    """Returns the extra that installs a module, if one does."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for extra, bounds in _extras(importlib.metadata.requires(_DISTRIBUTION) or []).items():
            if extra and any(name.lower().replace("-", "_") == module.lower() for name in bounds):
                return extra
    return None


def _extras(requirements: list[str]) -> dict[str, dict[str, SpecifierSet]]:
    """Returns the packages of each extra, with the bounds of their versions."""
    extras: dict[str, dict[str, SpecifierSet]] = {}
    for requirement in map(Requirement, requirements):
        # the marker of an extra's package is `extra == "…"`
        extra = "" if requirement.marker is None else str(requirement.marker).split('"')[-2]
        if extra not in _FOR_OTHERS:
            extras.setdefault(extra, {})[requirement.name] = requirement.specifier
    return extras


def _of_extras(requirements: list[str]) -> Iterator[Finding]:
    complete = []
    for extra, bounds in _extras(requirements).items():
        missing, others = [], []
        for name, specifier in bounds.items():
            installed = _installed(name)
            if installed is None:
                missing.append(name)
            elif not specifier.contains(installed, prereleases=True):
                others.append(f"{name} is {installed}, but was tested with {specifier}")
        label = f"the extra {extra}" if extra else "the base install"
        name = f"seamline[{extra}]" if extra else "seamline"
        if len(missing) == len(bounds) and extra not in _NEEDED:
            yield skipped(
                f"{label} is not installed: {_WITHOUT.get(extra, 'nothing here needs it')}"
            )
        elif missing:
            level = wrong if extra in _NEEDED else warning
            yield level(f"{label} lacks {', '.join(missing)}", f"pip install '{name}'")
        elif not others:
            complete.append(extra or "base")
        for other in others:
            yield warning(f"{label}: {other}", f"pip install --upgrade '{name}'")
    yield ok(f"packages of {', '.join(complete)} in tested versions")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

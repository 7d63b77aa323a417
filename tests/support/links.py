"""Links of Markdown pages as a code host understands them: files that are there, and headings."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from support.sources import ROOT

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def pages() -> list[pathlib.Path]:
    """Every page, relative to the root."""
    own = (*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md"), *(ROOT / "docs").rglob("*.md"))
    folders = ("benchmarks", "examples", "helm")
    found = [*own, *(ROOT / folder / "README.md" for folder in folders)]
    return sorted(path.relative_to(ROOT) for path in found)


def broken(page: pathlib.Path) -> Iterator[str]:
    """Links of a page that lead nowhere.

    Args:
        page: The page, relative to the root.
    """
    text = _CODE.sub("", _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8")))
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / page.parent / path).resolve() if path else ROOT / page
        if not there.exists():
            yield f"{page}: {target}: no such file"
        elif anchor and anchor not in anchors(there):
            yield f"{page}: {target}: no such heading"


def anchors(path: pathlib.Path) -> frozenset[str]:
    """The anchors of a page's headings, as a code host makes them."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
        found.append(f"{slug}-{count}" if count else slug)
    return frozenset(found)

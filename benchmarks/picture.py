"""A picture of what the benchmarks measured: each statement's median, beside DuckDB's.

    python benchmarks/picture.py docs/images/latency.svg

It shows `results/queries.json` and `results/tpch.json`, which `make bench BENCH="queries tpch"`
writes: bars are medians, the thin lines on them 95 % intervals.
"""

from __future__ import annotations

import html
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from harness import RESULTS, Timing

_WIDTH, _LABEL, _BAR, _GAP = 760, 190, 9, 10
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2933 } .title { font-weight: 600 }
.muted { fill: #5f6b7a } .ours { fill: #2f6db5 } .theirs { fill: #b8c2cc } .line { stroke: #1f2933 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ed } .muted { fill: #9aa5b1 } .ours { fill: #6ea8e8 } .theirs { fill: #56616d }
  .line { stroke: #e6e9ed }
}
"""
GROUPS = (
    ("queries", "Statements over HTTP", "DuckDB in process over one Parquet of the same rows"),
    ("tpch", "TPC-H over HTTP", "DuckDB in process over one Parquet for each table"),
)
"""File of results, what it has, and what that is compared with."""


def main() -> None:
    """Writes the picture."""
    (path,) = sys.argv[1:]
    pathlib.Path(path).write_text(picture(), encoding="utf-8")


def picture() -> str:
    """Returns the picture as SVG."""
    parts: list[str] = []
    y = 8
    for file, title, theirs in GROUPS:
        source = RESULTS / f"{file}.json"
        if source.exists():
            comparisons = json.loads(source.read_text(encoding="utf-8"))["comparisons"]
            y = _group(parts, comparisons, title, theirs, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img">'
        f"<title>Medians of statements, beside DuckDB's</title>"
        f"<desc>Bars of what results/queries.md and results/tpch.md list</desc>"
        f"<style>{_STYLE}</style>"
        f"{''.join(parts)}</svg>\n"
    )


def _group(
    parts: list[str], comparisons: list[dict[str, Any]], title: str, theirs: str, y: int
) -> int:
    """Draws comparisons from `y` on; returns where they end."""
    backwards = zip(*(reversed(comparison["name"]) for comparison in comparisons), strict=False)
    shared = itertools.takewhile(lambda letters: len(set(letters)) == 1, backwards)
    ends_alike = "".join(letters[0] for letters in shared)[::-1]
    size = ends_alike[ends_alike.index(", ") :]
    parts.append(f'<text class="title" x="0" y="{y + 12}">{title}</text>')
    y += 20
    parts.append(
        f'<rect class="ours" x="0" y="{y}" width="10" height="10"/><text x="16" y="{y + 10}">'
        f'Seamline</text><rect class="theirs" x="86" y="{y}" width="10" height="10"/>'
        f'<text x="102" y="{y + 10}">{html.escape(theirs)}</text>'
    )
    y += 20
    both = [
        (c["name"].removesuffix(size), *map(_timing, (c["ours"], c["theirs"]))) for c in comparisons
    ]
    scale = (_WIDTH - _LABEL - 70) / max(t.interval_s[1] for _, *pair in both for t in pair)
    for label, *pair in both:
        parts.append(f'<text x="0" y="{y + _BAR + 4}">{html.escape(label)}</text>')
        for name, timing in zip(("ours", "theirs"), pair, strict=True):
            parts.extend(_bar(name, timing, scale, y))
            y += _BAR
        y += _GAP
    parts.append(f'<text class="muted" x="0" y="{y + 10}">{html.escape(size[2:])}</text>')
    return y + 34


def _timing(body: dict[str, Any]) -> Timing:
    return Timing(body["wall_s"], body["cpu_s"])


def _bar(name: str, timing: Timing, scale: float, y: int) -> Iterator[str]:
    low, high = timing.interval_s
    middle, end = y + _BAR / 2, _LABEL + timing.median_s * scale
    yield f'<rect class="{name}" x="{_LABEL}" y="{y}" width="{end - _LABEL:.1f}" height="{_BAR}"/>'
    yield (
        f'<line class="line" x1="{_LABEL + low * scale:.1f}" x2="{_LABEL + high * scale:.1f}" '
        f'y1="{middle}" y2="{middle}"/>'
    )
    x = max(end, _LABEL + high * scale) + 5
    yield f'<text class="muted" x="{x:.1f}" y="{y + _BAR}">{timing.median_s * 1000:.0f} ms</text>'


if __name__ == "__main__":
    main()

"""The recording in README: a real run on a terminal, drawn as an SVG that moves by itself.

A script on a pseudo-terminal is played: its lines are typed, and what they print is kept with the
moment it came. The moments become frames of a screen, and the frames an SVG whose CSS shows one
after the other; waits are shortened. The stack has its own folder, and the environment is this one.

Run: `python benchmarks/recording.py docs/images/first-hour.svg`.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence

from terminal import COLUMNS, ROWS, Step, Terminal

LINES = (
    "seamline local up",
    """printf '{"auction": %d, "price": 2.5, "channel": "web"}\\n' 1001 1002 1003 > bids.jsonl""",
    "seamline local produce bids.jsonl --key auction",
    "seamline table create bids --topic bids --infer --key auction",
    "seamline serve --detach",
    'seamline query "SELECT channel, count(*) AS bids FROM bids GROUP BY channel"',
    "seamline tier bids --once",
    """echo '{"auction": 1004, "price": 3.0, "channel": "app"}' | seamline local produce - --topic bids""",  # noqa: E501
    'seamline query "SELECT channel, count(*) AS bids FROM bids GROUP BY channel"',
    'seamline query "EXPLAIN SELECT * FROM bids"',
)
END = ("seamline serve --stop", "seamline local down")
PAUSE_S_MAX = 1.2
"""Longer waits of the run are shortened to this."""
TYPED_S, READ_S, LAST_S = 0.9, 1.6, 6.0
_LINE_HEIGHT, _CHAR_WIDTH, _PADDING = 18, 8.4, 14
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


@dataclasses.dataclass
class Screen:
    """The lines of a terminal: text, carriage returns, and lines that are cleared."""

    lines: list[str] = dataclasses.field(default_factory=lambda: [""])
    _column: int = 0

    def write(self, text: str) -> None:
        """Shows a text as a terminal does."""
        text = re.sub(r"\r\x1b\[2?K", "\x0b", text)  # one mark for a cleared line
        for character in _ESCAPE.sub("", text):
            if character == "\x0b":
                self.lines[-1], self._column = "", 0
            elif character == "\r":
                self._column = 0
            elif character == "\n":
                self.lines.append("")
                self._column = 0
            else:
                line = self.lines[-1].ljust(self._column)
                self.lines[-1] = line[: self._column] + character + line[self._column + 1 :]
                self._column += 1

    def shown(self) -> tuple[str, ...]:
        """The lines that are in sight, of which one may be longer than the terminal."""
        wrapped = [
            line[start : start + COLUMNS]
            for line in self.lines
            for start in range(0, max(1, len(line)), COLUMNS)
        ]
        return tuple(wrapped[-ROWS:])


@dataclasses.dataclass(frozen=True)
class Frame:
    """A screen, and the seconds for which it is shown."""

    lines: tuple[str, ...]
    seconds: float


def play(folder: pathlib.Path) -> list[Step]:
    """Runs the lines on a terminal and returns what they printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "PYTHON"))}
    binaries = pathlib.Path(sys.executable).parent
    variables = {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(pathlib.Path.home() / ".cache"),
        "PATH": f"{binaries}:{os.environ['PATH']}",
    }
    terminal = Terminal(folder, {**kept, **variables})
    try:
        steps = [terminal.run(line) for line in LINES]
    finally:
        for line in END:
            terminal.run(line)
        terminal.close()
    failed = [step for step in steps if step.exit_code]
    assert not failed, failed[0].text
    return steps


def frames(steps: Sequence[Step], home: str) -> Iterator[Frame]:
    """Yields the screens of a run, one for each moment at which something was printed.

    Args:
        steps: The run.
        home: The folder that is shown as ~.
    """
    screen = Screen()
    for step in steps:
        screen.write(f"$ {step.line}")
        yield Frame(screen.shown(), TYPED_S)
        screen.write("\r\n")
        outputs = [o for o in step.outputs if _ESCAPE.sub("", o.data.decode(errors="replace"))]
        moments = [*(o.at_s for o in outputs[1:]), step.ended_s]
        for output, later in zip(outputs, moments, strict=False):
            screen.write(output.data.decode(errors="replace").replace(home, "~"))
            yield Frame(screen.shown(), min(PAUSE_S_MAX, max(0.1, later - output.at_s)))
        if screen.lines[-1]:
            screen.write("\r\n")
        yield Frame(screen.shown(), READ_S)


def svg(shown: Sequence[Frame]) -> str:
    """Returns frames as an SVG that shows one after the other, and begins again."""
    total = sum(frame.seconds for frame in shown) + LAST_S
    width, height = COLUMNS * _CHAR_WIDTH + 2 * _PADDING, ROWS * _LINE_HEIGHT + 2 * _PADDING
    styles, groups, began = [], [], 0.0
    for number, frame in enumerate(shown):
        seconds = frame.seconds + (LAST_S if number == len(shown) - 1 else 0)
        first, last = 100 * began / total, 100 * (began + seconds) / total
        began += seconds
        styles.append(
            f"@keyframes f{number}{{0%,{max(0, first - 0.001):.3f}%{{visibility:hidden}}"
            f"{first:.3f}%,{last - 0.001:.3f}%{{visibility:visible}}"
            f"{last:.3f}%,100%{{visibility:hidden}}}}"
            f"#f{number}{{animation:f{number} {total:.1f}s step-end infinite}}"
        )
        texts = "".join(_text(row, line) for row, line in enumerate(frame.lines) if line.strip())
        still = ' class="s"' if number == len(shown) - 1 else ""
        groups.append(f'<g id="f{number}"{still}>{texts}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img"'
        ' aria-label="A topic becomes a table, its rows are tiered, and a query reads both">'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d7dce2;"
        "white-space:pre}.p{fill:#8fd3a8}g{visibility:hidden}"
        f"{''.join(styles)}"
        "@media(prefers-reduced-motion:reduce){g{animation:none!important}"
        ".s{visibility:visible}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#16191d"/>{"".join(groups)}</svg>\n'
    )


def _text(row: int, line: str) -> str:
    kind = ' class="p"' if line.startswith("$ ") else ""
    y = _PADDING + (row + 0.75) * _LINE_HEIGHT
    # an address that is shown must not look like one from which something is loaded
    shown = html.escape(line, quote=False).replace("://", ":&#47;/")
    return f'<text x="{_PADDING}" y="{y:.0f}"{kind}>{shown}</text>'


def main() -> None:
    """Plays the lines and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    file: pathlib.Path = parser.parse_args().file
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        drawn = svg(list(frames(play(pathlib.Path(folder)), folder)))
    file.write_text(drawn, encoding="utf-8")
    print(f"{file}: {len(drawn.encode()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()

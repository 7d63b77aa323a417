"""The first hour: README's "Your own topic", or the quickstart, in a new environment.

The wheel is built and installed into a new virtual environment, with a home that has no caches
unless `--warm` is given. The lines are those of the page, typed into a shell on a terminal of 80
columns. For each: how long it took, and the longest time in which the terminal showed nothing new.

Run: `make bench BENCH=first_hour`, or `python benchmarks/first_hour.py --page quickstart --warm`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from terminal import Step, Terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = {"readme": "README.md", "quickstart": "docs/quickstart.md"}
SILENCE_S_MAX = 5.0
COLD = re.compile(r"([\d,]+) cold \+")
_TIERED = r"offsets in [\d.]+ s"
_INSTALL = "pip install "
_PARTS = ("client", "connectors", "gateway", "planners", "seam", "sql")
_FILES = ("pyproject.toml", "README.md", "LICENSE")


def build_wheel(folder: pathlib.Path) -> pathlib.Path:
    """Builds the wheel from a copy of the sources, so that nothing is left in them."""
    copy = folder / "sources"
    for part in _PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, copy)
    command = ["build", "--wheel", "--no-isolation", "--outdir", str(folder), str(copy)]
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def lines_of(page: str) -> list[str]:
    """Returns the shell lines of a page, without their comments."""
    text = (ROOT / PAGES[page]).read_text(encoding="utf-8")
    if page == "readme":
        text = text.split("## Your own topic")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]


def environment_of(home: pathlib.Path, venv: pathlib.Path, *, warm: bool) -> dict[str, str]:
    """Returns the variables of somebody who has just installed the wheel."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "PYTHON", "XDG"))}
    if warm:
        kept["XDG_CACHE_HOME"] = str(pathlib.Path.home() / ".cache")
    return {**kept, "HOME": str(home), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}


def steps(terminal: Terminal, wheel: pathlib.Path, lines: Sequence[str]) -> Iterator[Step]:
    """Types the lines, the wheel in place of the published one."""
    for line in lines:
        typed = line.replace("seamline[", f"{wheel}[") if line.startswith(_INSTALL) else line
        step = terminal.run(typed, until=_TIERED if line.endswith("&") else None)
        yield dataclasses.replace(step, line=line)


def stop(terminal: Terminal) -> None:
    """Stops everything that the lines have started."""
    for line in ("kill %1; wait", "seamline serve --stop", "seamline local down"):
        terminal.run(line)


def first_hour(folder: pathlib.Path, page: str, *, warm: bool, shows: bool) -> list[Step]:
    """Runs all steps of a page in a folder, and prints each as it ends."""
    wheel, venv, home = build_wheel(folder), folder / "venv", folder / "home"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    terminal = Terminal(home, environment_of(home, venv, warm=warm))
    made = []
    print("| step | seconds | longest silence |\n|---|---|---|")
    try:
        for step in steps(terminal, wheel, lines_of(page)):
            silence = max(step.silences_s)
            late = " (too long)" if silence > SILENCE_S_MAX else ""
            print(f"| `{step.line}` | {step.seconds:.1f} | {silence:.1f} s{late} |", flush=True)
            if shows:
                print(step.text.replace("\r\x1b[2K", "\n"), file=sys.stderr, flush=True)
            if step.exit_code:
                raise SystemExit(f"{step.line}: exit code {step.exit_code}\n{step.text[-2000:]}")
            made.append(step)
    finally:
        stop(terminal)
        terminal.close()
    return made


def first_cold_row(made: Sequence[Step]) -> float | None:
    """Returns the seconds until a query had read a cold row; None if none has."""
    for step in made:
        cold = COLD.search(step.text)
        if cold is not None and cold.group(1) != "0":
            return step.ended_s - made[0].began_s
    return None


def main() -> None:
    """Measures, and fails when no query read a cold row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", choices=PAGES, default="readme")
    parser.add_argument("--warm", action="store_true", help="keep this user's caches")
    parser.add_argument("--show", action="store_true", help="print what the steps print")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        made = first_hour(pathlib.Path(folder), given.page, warm=given.warm, shows=given.show)
    seconds = first_cold_row(made)
    if seconds is None:
        raise SystemExit("no query has read a cold row")
    print(f"\nfirst cold row after {seconds:.0f} s")


if __name__ == "__main__":
    main()

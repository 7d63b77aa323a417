"""Goal: an option of tables is declared once, and is then everywhere where options are.

Method: a copy of the module of options with one declaration more, in a process of its own.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

from support.sources import ROOT

from seamline.connectors.kafka.formats.all_formats import FORMATS
from seamline.planners.rules.prune_tail_by_key import PARTITIONERS
from seamline.seam import options

COLOR = """
    color: Annotated[
        str | None,
        Option(
            "The color of the table",
            words=("red", "green"),
            create=Flag("Its color."),
            adopt=Flag("The color it has."),
            alter=Flag("Another color."),
        ),
    ] = None
"""
AFTER = "\n    def stored(self)"


def test_one_declaration_is_all_that_an_option_needs(tmp_path: pathlib.Path) -> None:
    text = (ROOT / "seam" / "options.py").read_text(encoding="utf-8")
    assert text.count(AFTER) == 1
    module = tmp_path / "options.py"
    module.write_text(text.replace(AFTER, COLOR + AFTER), encoding="utf-8")
    for folder in ("created", "adopted"):
        (tmp_path / folder).mkdir()
    program = str(ROOT / "tests" / "support" / "further_option.py")
    run = subprocess.run(
        [sys.executable, program, str(module), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    uses = json.loads(run.stdout.splitlines()[-1])
    assert uses["create"] == ["INVALID_TABLE_DEFINITION", "done", "red"]
    assert uses["alter"] == ["done", "green"]
    assert uses["adopt"] == ["red", True]
    assert uses["system"] == [["", "varchar", "The color of the table"]]
    flags = {command: " ".join(lines[0].split()) for command, lines in uses["flags"].items()}
    assert flags == {
        "create": "--color [red|green] Its color.",
        "adopt": "--color [red|green] The color it has.",
        "alter": "--color [red|green] Another color.",
    }
    assert uses["docs"] == ["| `color` | none | ALTER TABLE, adoption | The color of the table |"]


def test_words_of_other_folders_are_there() -> None:
    named = {option.words_of for option in options.OPTIONS} - {""}
    assert named == {options.FORMATS, options.PARTITIONERS}
    defaults = {o.default for o in options.OPTIONS if o.words_of == options.FORMATS}
    assert defaults <= set(FORMATS)
    assert {*PARTITIONERS} == {"murmur2", "crc32"}

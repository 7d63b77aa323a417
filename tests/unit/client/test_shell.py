"""Goal: at the prompt, what somebody types is done, and what they see is what they need.

Method: the real command in a pseudo-terminal, before a real gateway; keys are sent as a keyboard
sends them. What comes back is read without the sequences that move the cursor.
"""

from __future__ import annotations

import pathlib
import stat
from collections.abc import Iterator

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from support import offline
from support.gateway import Gateway
from support.terminal import CTRL_C, CTRL_D, ENDLESS, SOON_S, TAB, UP, Terminal, plain

from seamline.gateway.statements.statement import State
from seamline.shell.prompt import parted


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose catalog has one table, without a topic."""
    folder = tmp_path_factory.mktemp("shell")
    config = offline.config(folder)
    catalog = load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=f"file://{folder}/warehouse",
    )
    catalog.create_namespace("default")
    fields = (NestedField(1, "colour", StringType()), NestedField(2, "weight", LongType()))
    catalog.create_table("default.widgets", Schema(*fields))
    catalog.close()
    running = Gateway(config)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def terminal(gateway: Gateway, tmp_path: pathlib.Path) -> Iterator[Terminal]:
    """The prompt."""
    made = Terminal(gateway.url, tmp_path)
    try:
        made.shows("seamline>")
        yield made
    finally:
        made.close()


def test_statements_over_several_lines_are_run_and_remembered(
    terminal: Terminal, gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    terminal.type("SELECT 1 AS one,\r")
    terminal.shows("->")
    terminal.type("';' AS two;\r")
    terminal.shows("│ one │ two │", "│   1 │ ;   │", "1 row", "seamline>")
    terminal.type("\\x\r")
    terminal.shows("one below the other", "seamline>")
    terminal.type(UP + UP + "\r")
    terminal.shows("─[ row 1 ]", "one │ 1", "two │ ;", "seamline>")
    terminal.type(CTRL_D)
    assert terminal.ends() == 0
    file = tmp_path / "state" / "seamline" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "SELECT 1 AS one," in file.read_text()
    again = Terminal(gateway.url, tmp_path)
    again.shows("seamline>")
    again.type(UP + "\r")
    again.shows("│   1 │ ;   │", "seamline>")
    again.type("\\q\r")
    assert again.ends() == 0


def test_names_are_completed(terminal: Terminal) -> None:
    terminal.type("sel" + TAB)
    terminal.shows("select")
    terminal.type(" count(*) AS n FROM widg" + TAB)
    terminal.shows("widgets")
    terminal.type(" w WHERE w.colo" + TAB)
    terminal.shows("colour")
    terminal.type(" IS NULL;\r")
    terminal.shows("│ n │", "│ 0 │", "seamline>")


@pytest.mark.prove
def test_what_is_made_is_completed_from_then_on(terminal: Terminal) -> None:
    terminal.type("SELECT 1 FROM w" + TAB)
    terminal.shows("dgets")
    terminal.type(CTRL_C)
    terminal.shows("seamline>")
    terminal.type("CREATE VIEW gadgets AS SELECT 7 AS teeth;\r")
    terminal.shows("done", "seamline>")
    terminal.type("SELECT * FROM gad" + TAB)
    terminal.shows("gets")
    terminal.type(";\r")
    terminal.shows("│ teeth │", "│     7 │", "seamline>")


def test_ctrl_c_cancels_on_the_gateway_and_the_prompt_stays(
    terminal: Terminal, gateway: Gateway
) -> None:
    terminal.type(ENDLESS + "\r")
    statement = gateway.running()
    terminal.shows("running", "on duckdb", "Ctrl-C cancels")
    terminal.type(CTRL_C)
    terminal.shows("canceled", "seamline>")
    statement.wait(SOON_S)
    assert statement.state is State.CANCELED
    terminal.type("SELECT 2 AS two;\r")
    terminal.shows("│   2 │", "seamline>")


def test_an_error_shows_its_place(terminal: Terminal) -> None:
    terminal.type("SELECT 1,\r")
    terminal.shows("->")
    terminal.type("  colr FROM widgets;\r")
    terminal.shows(
        "error: COLUMN_NOT_FOUND: column colr does not exist (line 2:3)\n",
        "line 2:   colr FROM widgets\n" + " " * 10 + "^\n",
        "hint: Did you mean colour?",
        "seamline>",
    )
    terminal.type("SELECT * FROM widget;\r")
    terminal.shows("hint: Did you mean widgets", "seamline>")


def test_meta_commands(terminal: Terminal, tmp_path: pathlib.Path) -> None:
    def typed(keys: str, *shown: str) -> None:
        terminal.type(keys + "\r")
        terminal.shows(*shown, "seamline>")

    typed("\\dt", "widgets")
    typed("\\d widgets", "colour", "weight")
    typed("\\df abs*", "abs")
    typed("\\timing", "timing is on")
    typed("SELECT count(colour) AS n FROM widgets;", "│ 0 │", "time: ")
    typed("SELECT count(colour) AS n FROM widgets;", "│ 0 │", "from the result cache")
    typed("\\receipt", "engine     duckdb", "table      lake.default.widgets")
    typed("\\token", "next statement reads the same rows")
    typed("\\token use", "next statement reads what that token stands for")
    typed("SELECT count(colour) AS m FROM widgets;", "│ m │")
    typed("\\explain", "Engine: duckdb", "scan_0: lake.default.widgets")
    typed("\\format csv")
    typed("SELECT NULL AS a, '' AS b, 'x' AS c;", 'a,b,c\n,"",x\n')
    script = tmp_path / "two.sql"
    script.write_text("\\format tsv\nSELECT 1 AS a,\n 2 AS b;\n\nSELECT nope;\nSELECT 3;\n")
    typed(f"\\i {script}", "1\t2", "COLUMN_NOT_FOUND", f"in {script}: statement 2, line 5")
    results = tmp_path / "results"
    typed(f"\\o {results}", "results go to")
    typed("SELECT 5 AS e;", "1 row")
    assert results.read_text() == "e\n5\n"
    typed("\\nothing", "INVALID_ARGUMENT", "\\? lists them")
    typed("\\?", "\\watch [seconds]")


@pytest.mark.prove
def test_a_meta_command_below_an_unfinished_statement_leaves_it_unfinished(
    terminal: Terminal,
) -> None:
    terminal.type("SELECT 1 AS one,\r")
    terminal.shows("->")
    terminal.type("\\timing\r")
    terminal.shows("timing is on", "SELECT 1 AS one,", "->")
    terminal.type("2 AS two;\r")
    terminal.shows("│ one │ two │", "time: ", "seamline>")
    terminal.type("SELECT\r")
    terminal.shows("->")
    terminal.type("\\q\r")
    assert terminal.ends() == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1\n\\x", ("SELECT 1\n", "\\x")),
        ("SELECT 1;\n\\x", ("", "SELECT 1;\n\\x")),
        ("SELECT '\n\\x", ("", "SELECT '\n\\x")),
        ("SELECT 1 /*\n\\x", ("", "SELECT 1 /*\n\\x")),
        ("SELECT 1 -- a\n\\x", ("SELECT 1 -- a\n", "\\x")),
        ("SELECT 1\n \\x", ("", "SELECT 1\n \\x")),
        ("\\explain SELECT\n\\x", ("", "\\explain SELECT\n\\x")),
        ("\\x", ("", "\\x")),
        ("SELECT 1;", ("", "SELECT 1;")),
    ],
)
def test_where_a_meta_command_begins(text: str, parts: tuple[str, str]) -> None:
    assert parted(text) == parts


def test_what_meta_commands_do_not_take(terminal: Terminal, tmp_path: pathlib.Path) -> None:
    def typed(keys: str, *shown: str) -> None:
        terminal.type(keys + "\r")
        terminal.shows(*shown, "seamline>")

    typed("SELECT 7 AS seven;", "│     7 │")
    for pause in ("soon", "nan", "inf", "-1", "1e10"):
        typed(f"\\watch {pause}", f"{pause} is not a number of seconds")
    typed("\\explain SELECT nope", "COLUMN_NOT_FOUND")
    typed("\\explain", "COLUMN_NOT_FOUND")  # it is the last statement
    typed(f"\\o {tmp_path}/none/out", "none/out cannot be written: No such file or directory")
    typed("SELECT 8 AS eight;", "│     8 │")


def test_watch_goes_on_until_ctrl_c(terminal: Terminal) -> None:
    terminal.type("SELECT 8 AS eight;\r")
    terminal.shows("│     8 │", "seamline>")
    terminal.type("\\watch 0.1\r")
    terminal.shows("│     8 │", "until Ctrl-C", "│     8 │", "until Ctrl-C", "│     8 │")
    terminal.type(CTRL_C)
    terminal.shows("canceled", "seamline>")


@pytest.mark.prove
def test_what_is_longer_than_the_screen_goes_through_the_pager(
    gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    terminal = Terminal(gateway.url, tmp_path, PAGER="sed s/^/paged:/")
    terminal.shows("seamline>")
    long = "SELECT * FROM UNNEST(sequence(1, {})) t(n);\r"
    terminal.type(long.format(50))
    terminal.shows("paged:│ 50 │", "seamline>")
    terminal.type(long.format(5))
    terminal.shows("\n│ 5 │", "seamline>")
    terminal.type("\\pset pager off\r")
    terminal.shows("the pager is off", "seamline>")
    terminal.type(long.format(50))
    terminal.shows("\n│ 50 │", "seamline>")
    terminal.type(CTRL_D)
    assert terminal.ends() == 0


@pytest.mark.prove
def test_no_colours_where_they_are_not_wanted(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    for no_color, dim in (("", True), ("1", False)):
        terminal = Terminal(
            gateway.url, tmp_path, "--execute", "SELECT NULL AS a", NO_COLOR=no_color
        )
        shown = terminal.process.read()
        assert ("\x1b[2m∅" in shown) == dim


def test_a_binary_format_is_not_for_a_terminal(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(gateway.url, tmp_path, "-e", "SELECT 1", "--format", "arrow")
    terminal.shows("--format arrow is not for terminals")
    assert terminal.ends() == 2


def test_a_plan_is_readable_at_80_columns(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(
        gateway.url, tmp_path, "-q", "-e", "EXPLAIN SELECT * FROM widgets", columns=80
    )
    lines = plain(str(terminal.process.read())).splitlines()
    assert lines[0].startswith("Engine: duckdb")
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("├─ columns    colour, weight") for line in lines)


def test_no_gateway(tmp_path: pathlib.Path) -> None:
    terminal = Terminal("http://127.0.0.1:1", tmp_path)
    terminal.shows("error: GATEWAY_UNAVAILABLE")
    assert terminal.ends() == 3


def test_words_and_commands_of_other_prompts(terminal: Terminal) -> None:
    terminal.type("help\r")
    terminal.shows("\\dn [catalog]", "Ctrl-C cancels it", "seamline>")
    terminal.type("\\l\r")
    terminal.shows("│ lake", "seamline>")
    terminal.type("\\dn lake\r")
    terminal.shows("│ default", "seamline>")
    terminal.type("SELECT 7 AS seven;\r")
    terminal.shows("│     7 │", "seamline>")
    terminal.type("\\g\r")
    terminal.shows("│     7 │", "seamline>")
    terminal.type("exit;\r")
    assert terminal.ends() == 0


def test_a_statement_is_edited_and_run(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/7/8/ "$1"\n')
    editor.chmod(0o700)
    terminal = Terminal(gateway.url, tmp_path, EDITOR=str(editor))
    try:
        terminal.shows("seamline>")
        terminal.type("SELECT 7 AS number;\r")
        terminal.shows("│      7 │", "seamline>")
        terminal.type("\\e\r")
        terminal.shows("SELECT 8 AS number", "│      8 │", "seamline>")
    finally:
        terminal.close()

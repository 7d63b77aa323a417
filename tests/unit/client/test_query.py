"""Goal: `seamline query` takes statements from anywhere, and ends with the documented code.

Method: the command in this process, before a real gateway that has no tables; processes of its own
for what depends on one.
"""

from __future__ import annotations

import concurrent.futures
import io
import os
import pathlib
import subprocess
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support import programs
from support.cutting import cutting
from support.gateway import Gateway

from seamline.cli import root
from seamline.commands.freshness import variant
from seamline.dbapi.errors import Error
from seamline.errors import GATEWAY_UNAVAILABLE, INTERNAL_ERROR, Location
from seamline.terminal.running import show_within

MANY = (
    "SELECT a * 1000 + b AS n, CAST(a * b AS varchar) AS t"
    " FROM UNNEST(sequence(0, 299)) x(a), UNNEST(sequence(0, 999)) y(b)"
)
READ: dict[str, Any] = {
    "parquet": pq.read_table,
    "arrow": lambda file: pa.ipc.open_stream(file).read_all(),
}


@pytest.fixture
def run(
    offline_gateway: Gateway, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """Runs the command."""
    monkeypatch.setenv("SEAMLINE_URL", offline_gateway.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Runner()


class Runner:
    """Runs `seamline` with arguments and standard input."""

    def __call__(self, *arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(root, arguments, input=given, prog_name="seamline")

    def csv(self, *arguments: str, given: str = "") -> str:
        """What it writes as CSV, when it succeeds."""
        done = self("query", "--format", "csv", "--quiet", *arguments, given=given)
        assert done.exit_code == 0, done
        return done.stdout


def test_statements_from_anywhere(run: Runner, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "two.sql"
    file.write_text("-- the first\nSELECT 1 AS a;\nSELECT ';' AS b")
    assert run.csv("SELECT 1 AS a") == "a\n1\n"
    assert run.csv("--file", str(file)) == "a\n1\nb\n;\n"
    assert run.csv("-f", "-", given=file.read_text()) == "a\n1\nb\n;\n"
    assert run.csv("-", given="SELECT 1 AS a\n;\n") == "a\n1\n"
    assert run.csv(given="SELECT 1 AS a; SELECT 2 AS a;") == "a\n1\na\n2\n"
    assert (
        run.csv("-e", "SELECT 1 AS a; SELECT 2 AS a", "-e", "SELECT 3 AS a") == "a\n1\na\n2\na\n3\n"
    )
    assert run.csv("-e", "PREPARE p FROM SELECT 4 AS a; EXECUTE p").endswith("a\n4\n")


def test_the_first_failure_ends_a_script(run: Runner, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "three.sql"
    file.write_text("SELECT 1 AS a;\n\nSELECT\n  nope;\nSELECT 3 AS c;\n")
    done = run("query", "--quiet", "--format", "csv", "-f", str(file))
    assert isinstance(done.exception, Error)
    assert done.stdout == "a\n1\n"
    assert str(done.exception).startswith("COLUMN_NOT_FOUND: column nope does not exist (line 4:3)")
    assert done.exception.__notes__ == [
        "line 4:   nope\n          ^",
        f"in {file}: statement 2, line 3",
    ]


def test_one_option_of_several_statements_is_a_script(run: Runner) -> None:
    done = run("query", "-q", "-e", "SELECT 1; SELECT nope")
    assert isinstance(done.exception, Error)
    assert done.exception.__notes__[-1] == "in --execute: statement 2, line 1"


@pytest.mark.parametrize("command", ["tail", "freshness"])
def test_no_position_is_told_in_a_statement_that_nobody_has_written(
    run: Runner, command: str
) -> None:
    error = run(command, "nosuch").exception
    assert str(error).startswith("TABLE_NOT_FOUND: table lake.default.nosuch does not exist\n")


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Location(1, 11), (Location(1, 1), "line 1: a > b\n        ^")),
        (Location(1, 15), (Location(1, 5), "line 1: a > b\n            ^")),
        (Location(2, 5), (Location(2, 5), "line 2: AND c\n            ^")),
        (Location(1, 3), (None, None)),
        (Location(3, 1), (None, None)),
        (None, (None, None)),
    ],
)
def test_a_position_is_shown_in_the_part_that_the_user_has_written(
    place: Location | None, shown: tuple[Location | None, str | None]
) -> None:
    error = Error(INTERNAL_ERROR, "wrong", location=place)
    show_within(error, "a > b\nAND c", begin=10)
    assert (error.location, *(getattr(error, "__notes__", None) or [None])) == shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "SELECT 1", "--execute", "SELECT 2"],
        ["query", "--execute", " ; -- nothing"],
        ["query", ""],
        ["query", " ; -- nothing"],
        ["query", "--format", "no"],
        ["query", "--execute", "SELECT 1; SELECT 2", "--format", "parquet", "-o", "unused"],
        ["query"],
        ["completion", "tcsh"],
    ],
)
def test_what_is_used_wrongly(run: Runner, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_format_may_be_a_profiles(run: Runner, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seamline" / "config.toml"
    file.parent.mkdir()
    file.write_text("[profiles.a]\nformat = 'markdown'\n[profiles.b]\nformat = 'no'")
    shown = run("query", "-q", "--profile", "a", "SELECT 'x|y' AS t, NULL AS n")
    assert shown.stdout == "| t | n |\n| --- | --- |\n| x\\|y | ∅ |\n"
    assert (
        run("query", "-q", "--profile", "a", "--format", "csv", "SELECT 1 AS t").stdout == "t\n1\n"
    )
    assert "the profile's format no is not known" in str(
        run("query", "--profile", "b", "SELECT 1").exception
    )


def test_a_failure_leaves_a_file_as_it_was(run: Runner, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "kept.csv"
    file.write_text("kept")
    assert run("query", "SELECT nope", "-o", str(file)).exit_code == 1
    assert file.read_text() == "kept"


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "arrow"])
def test_a_result_that_breaks_off_is_in_no_file(
    run: Runner, tmp_path: pathlib.Path, offline_gateway: Gateway, form: str
) -> None:
    """Neither in the file that is named, nor, as a file that looks whole, in standard output."""
    file, link = tmp_path / "kept", tmp_path / "link"
    file.write_text("kept")
    file.chmod(0o640)
    link.symlink_to(file)
    wanted = ["query", "-q", "--format", form, MANY]
    with cutting(offline_gateway.url, 800_000, times=99) as network:
        for output in (["-o", str(link)], []):
            done = run(*wanted, *output, "--url", network.url)
            assert isinstance(done.exception, Error)
            assert done.exception.code is GATEWAY_UNAVAILABLE
        assert file.read_text() == "kept"
    if form in READ:
        with pytest.raises((pa.ArrowInvalid, OSError)):
            READ[form](io.BytesIO(done.stdout_bytes))
    assert run(*wanted, "-o", str(link)).exit_code == 0
    assert file.stat().st_size > 100_000
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert {each.name for each in tmp_path.iterdir()} == {"kept", "link"}
    if form in READ:
        assert READ[form](io.BytesIO(file.read_bytes())).num_rows == 300_000


def test_a_pipe_is_written_as_it_is(run: Runner, tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        reading = pool.submit(pipe.read_text)
        assert (
            run("query", "-q", "--format", "csv", "SELECT 1 AS a", "-o", str(pipe)).exit_code == 0
        )
        assert reading.result(60) == "a\n1\n"
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete"), ("zsh", "#compdef"), ("fish", "complete")]
)
def test_completion_of_a_shell(run: Runner, shell: str, word: str) -> None:
    shown = run("completion", shell)
    assert shown.exit_code == 0
    assert word in shown.stdout
    assert "_SEAMLINE_COMPLETE" in shown.stdout


def test_names_of_profiles_are_completed(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "seamline"
    folder.mkdir()
    (folder / "config.toml").write_text("[profiles.laptop]\n[profiles.lake]\n[profiles.other]")
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "_SEAMLINE_COMPLETE": "bash_complete",
        "COMP_WORDS": "seamline query --profile la",
        "COMP_CWORD": "3",
    }
    done = programs.run(programs.seamline(), environment)
    assert done.stdout.split() == ["plain,lake", "plain,laptop"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-q", "-e", "SELECT 1 AS a", "--format", "csv"], 0, ""),
        (["-e", "SELECT nope"], 1, "^\nhint: "),
        (["-e"], 2, "requires an argument"),
        (["-e", "SELECT 1", "--url", "http://127.0.0.1:1"], 3, "GATEWAY_UNAVAILABLE"),
    ],
)
def test_how_it_ends(
    offline_gateway: Gateway, tmp_path: pathlib.Path, arguments: list[str], code: int, said: str
) -> None:
    environment = {
        **os.environ, "SEAMLINE_URL": offline_gateway.url, "XDG_CONFIG_HOME": str(tmp_path)
    }  # fmt: skip
    done: subprocess.CompletedProcess[str] = programs.run(
        programs.seamline(*arguments), environment
    )
    assert done.returncode == code, done
    assert said in done.stderr


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("bids", '"bids$seam"'),
        ("shop.bids", 'shop."bids$seam"'),
        ('lake."a.b"."Odd ""x"""', 'lake."a.b"."Odd ""x""$seam"'),
    ],
)
def test_the_name_of_a_table_about_a_table(table: str, expected: str) -> None:
    assert variant(table, "seam") == expected

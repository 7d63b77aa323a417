"""Goal: `--embedded` answers as a gateway would, with none running, and leaves nothing behind.

Method: the command over a catalog in one file, in this process, and at a prompt in a
pseudo-terminal; the same statements on a gateway over the same configuration are the reference.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess

import pytest
from click.testing import CliRunner, Result
from support import offline
from support.gateway import Gateway
from support.terminal import CTRL_C, CTRL_D, ENDLESS, Terminal

import seamline
from seamline.cli import root
from seamline.dbapi.embedded import EmbeddedConnection


def embedded(*arguments: str) -> Result:
    """Runs the command in this process."""
    return CliRunner().invoke(root, ["query", "--embedded", *arguments], prog_name="seamline")


def left_of(folder: pathlib.Path) -> list[str]:
    """What of the processes' own folders is left, but for what a worker makes as it ends."""
    return [str(lock) for lock in folder.rglob("embedded/*/lock")]


def test_statements_are_answered_without_a_gateway(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = offline.write(tmp_path)
    monkeypatch.setenv("SEAMLINE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SEAMLINE_CONFIG", str(file))
    script = ["-e", "PREPARE p FROM SELECT ? AS a", "-e", "EXECUTE p USING 7"]
    done = embedded(*script, "--format", "csv", "--quiet")
    assert done.stdout == "a\n7\n", done
    failed = embedded("SELECT 1 +\n  nope", "--config", str(file))
    assert isinstance(failed.exception, seamline.Error)
    assert failed.exception.summary.startswith("COLUMN_NOT_FOUND: column nope does not exist")
    assert failed.exception.__notes__ == ["line 2:   nope\n          ^"]
    assert left_of(tmp_path) == []


@pytest.mark.prove
def test_receipts_and_tokens_are_those_of_the_gateway(tmp_path: pathlib.Path) -> None:
    offline.write(tmp_path)
    sql = "SELECT table_name FROM lake.information_schema.tables ORDER BY 1"
    with contextlib.closing(Gateway(offline.config(tmp_path))) as gateway:
        with (
            EmbeddedConnection(str(tmp_path / "seamline.yaml")) as connection,
            gateway.connect() as other,
        ):
            ours, theirs = connection.execute(sql), other.execute(sql)
            assert ours.fetchall() == theirs.fetchall()
            assert ours.description == theirs.description
            assert ours.receipt.keys() == theirs.receipt.keys()
            secret = (pathlib.Path(gateway.config.state_directory) / "token-secret").read_text()
        with pytest.raises(seamline.OperationalError, match="nothing listens there"):
            connection.again().execute("SELECT 1")
    assert secret == (tmp_path / ".seamline-gateway" / "token-secret").read_text()


def test_nobody_else_is_answered(tmp_path: pathlib.Path) -> None:
    offline.write(tmp_path)
    with (
        EmbeddedConnection(str(tmp_path / "seamline.yaml")) as connection,
        seamline.connect(connection.url) as stranger,
        pytest.raises(seamline.Error, match="UNAUTHENTICATED"),
    ):
        stranger.execute("SELECT 1")


def test_what_a_killed_one_has_left_is_removed_by_the_next(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    folder = tmp_path / ".seamline-gateway" / "embedded"
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"{gone.pid}-killed", f"{os.getpid()}-starting"):
        (folder / name).mkdir(parents=True)
    (folder / f"{gone.pid}-killed" / "lock").touch()
    assert embedded("SELECT 1", "--config", str(file)).exit_code == 0
    assert {path.name for path in folder.iterdir()} >= {f"{os.getpid()}-starting"}
    assert not (folder / f"{gone.pid}-killed").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["SELECT 1", "--url", "http://127.0.0.1:1"], 2, "leave out --url"),
        (["SELECT 1", "--profile", "production"], 2, "leave out --profile"),
        (["SELECT 1", "--config", "nowhere.yaml"], 1, "INVALID_CONFIG: there is no configuration"),
    ],
)
def test_what_is_used_wrongly(arguments: list[str], code: int, said: str) -> None:
    done = embedded(*arguments)
    assert done.exit_code == code
    assert said in done.stderr + str(done.exception)


def test_a_configuration_is_for_an_embedded_gateway() -> None:
    done = CliRunner().invoke(root, ["query", "SELECT 1", "--config", "x"])
    assert done.exit_code == 2
    assert "--config is for --embedded" in done.stderr


@pytest.mark.prove
def test_a_prompt_without_a_gateway(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    terminal = Terminal("", tmp_path, "--embedded", "--config", str(file), columns=80)
    with contextlib.closing(terminal.process):
        terminal.shows(f"a gateway in this command, over {file}", "seamline>")
        terminal.type(ENDLESS + "\r")
        terminal.shows("Ctrl-C cancels")
        terminal.type(CTRL_C)
        terminal.shows("canceled", "seamline>")
        terminal.type("SELECT 1 AS one;\r")
        terminal.shows("│   1 │", "1 row", "seamline>")
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert left_of(tmp_path) == []


def test_python_may_have_one_too(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    with seamline.connect(embedded=str(file)) as connection:
        assert connection.execute("SELECT 40 + 2").fetchall() == [(42,)]
    with pytest.raises(seamline.InterfaceError, match="url"):
        seamline.connect("http://127.0.0.1:1", embedded=True)
    assert left_of(tmp_path) == []

"""Goal: what a gateway, a pipeline and the local stack keep is read by their owner only.

Method: everything is run as people run it, by commands, in folders that were there and open, with a
umask that forbids nobody anything: the stack, a topic, tables, tiering, statements on both engines
with results and spills, live tables given to other engines, and maintenance. Then somebody else
walks the tree: brokers, Spark, DuckDB, SQLite and PyIceberg have written into it, each in its own
way. A check of the code ensures that no folder is made otherwise.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pathlib
import stat
import subprocess
from collections.abc import Iterator

import pytest
import urllib3
from confluent_kafka import Producer
from support import offline, programs
from support.gateway import Gateway
from support.ports import reserved_port
from support.waiting import wait_until

from seamline.connectors.files import make_folder, private_files, private_folder

ROWS = 60_000
ROOT = pathlib.Path(__file__).parents[2]


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def seen_by_others(folder: pathlib.Path) -> Iterator[str]:
    """What somebody else finds who may look into a folder; names of empty files reveal nothing."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            if mode & 0o077:
                yield f"{stat.S_IMODE(mode):o} {path}"
            if mode & 0o011:
                yield from seen_by_others(path)
        elif mode & 0o077 and path.lstat().st_size:
            yield f"{stat.S_IMODE(mode):o} {path}"


def test_somebody_else_is_not_blind(tmp_path: pathlib.Path) -> None:
    for name, mode in (("open", 0o755), ("passable", 0o711), ("closed", 0o700)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("rows")
        (tmp_path / name / "own").touch(mode=0o600)
        (tmp_path / name).chmod(mode)
    found = [line.split()[1].removeprefix(f"{tmp_path}/") for line in seen_by_others(tmp_path)]
    assert found == ["open", "open/file", "passable", "passable/file"]


# --- Made at all ---------------------------------------------------------------------------------

MAKERS = {"mkdir", "makedirs"}
SHARED = {"connectors/jvm/ivy.py", "connectors/jvm/jars.py"}
"""Jars that anybody may fetch."""


def test_every_folder_is_made_for_its_owner() -> None:
    """By the functions of one module; what they promise is below."""
    found = {
        str(path.relative_to(ROOT))
        for package in ("gateway", "connectors")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in MAKERS
    }
    assert found == {"connectors/files.py", *SHARED}


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_private(tmp_path: pathlib.Path) -> None:
    with umask(0):
        for path in (tmp_path / "new", tmp_path / "deep" / "deeper" / "new"):
            private_folder(path)
            assert mode(path) == 0o700
        assert mode(tmp_path / "deep") == 0o700
        (tmp_path / "open").mkdir(mode=0o777)
        make_folder(tmp_path / "open")
        assert mode(tmp_path / "open") == 0o777
        private_folder(tmp_path / "open")
        assert mode(tmp_path / "open") == 0o700


def test_files_are_private_for_a_while(tmp_path: pathlib.Path) -> None:
    with umask(0):
        with private_files():
            (tmp_path / "a").touch()
        (tmp_path / "b").touch()
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o600, 0o666)


# --- Kept by a gateway ---------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [False, True])
def test_a_gateway_closes_its_state(tmp_path: pathlib.Path, earlier: bool) -> None:
    """Also what an earlier version left open, in a folder that others may look into."""
    config = offline.config(tmp_path)
    state = pathlib.Path(config.state_directory)
    with umask(0o022):
        if earlier:
            for name in ("results", "spill", "live", "leases", "tail"):
                (state / name).mkdir(parents=True)
                (state / name / "rows").write_text("rows")
        with contextlib.closing(Gateway(config)) as gateway:
            numbers = "(VALUES {}) AS {{}} (n)".format(", ".join(f"({n})" for n in range(1500)))
            large = f"FROM {numbers.format('a')} CROSS JOIN {numbers.format('b')}"
            sql = f"SELECT a.n, b.n, a.n * b.n AS product {large}"
            with contextlib.closing(gateway.statement(sql, "duckdb")):
                assert any((state / "results").iterdir())
                assert list(seen_by_others(state)) == []
            assert mode(state) == (0o755 if earlier else 0o700)


def test_what_a_client_writes_follows_the_users_own_umask(tmp_path: pathlib.Path) -> None:
    """A result that a user has written to a file is the user's to share."""
    with contextlib.closing(Gateway(offline.config(tmp_path))) as gateway:
        target = tmp_path / "result.csv"
        done = programs.run(
            programs.seamline("query", "SELECT 1", "--output", str(target)),
            {**os.environ, "SEAMLINE_URL": gateway.url},
            umask=0o022,
        )
        assert done.returncode == 0, done
        assert mode(target) == 0o644


# --- Kept by everything together -----------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_what_is_kept_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "stack"
    folder.mkdir()
    folder.chmod(0o777)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "SPARK_"))},
        "SEAMLINE_HOME": str(folder),
        "SEAMLINE_SPARK__DRIVER_MEMORY": "700m",
        "SEAMLINE_SPARK__MASTER": "local[2]",
        "SEAMLINE_LIMITS__MEMORY_BYTES": "64MiB",
        "SEAMLINE_TAIL__MEMORY_BYTES": "8MiB",
    }

    def run(*arguments: str) -> None:
        done = programs.run(programs.seamline(*arguments), environment, umask=0, timeout=400)
        assert done.returncode == 0, done

    port = reserved_port()
    try:
        run("local", "up")
        run("local", "topic", "bids")
        produce(folder, ROWS)
        run("table", "create", "bids", "--topic", "bids", "--schema", "id bigint, text varchar")
        serve = programs.seamline("serve", "--port", str(port))
        with running(serve, environment, tmp_path / "serve.log"):
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: answers(url), what="the gateway")
            environment["SEAMLINE_URL"] = url
            run("query", "SELECT count(*) FROM bids")
            live = f"{url}/iceberg/v1/lake/namespaces/default/tables/bids?snapshots=all"
            assert urllib3.request("GET", live, timeout=60).status == 200
            run("tier", "bids", "--once")
            produce(folder, 1000)
            run("query", "SELECT id, text FROM bids ORDER BY text, id LIMIT 50000")
            run("query", "SELECT count(*) FROM bids", "--engine", "spark")
            run("query", "SELECT a.text FROM bids AS a JOIN bids AS b ON a.id = b.id ORDER BY 1")
            run("table", "maintain", "bids", "--expire-older-than", "1ms", "--retain-last", "1")
            assert list(seen_by_others(folder)) == []
            kinds = {path.suffix for path in folder.rglob("*") if path.is_file()}
            assert {".parquet", ".avro", ".json", ".log", ".db", ".yaml"} <= kinds
    finally:
        programs.run(programs.seamline("local", "down"), environment)


@contextlib.contextmanager
def running(
    command: list[str], environment: dict[str, str], log: pathlib.Path
) -> Iterator[subprocess.Popen[str]]:
    """A program with a umask that forbids nothing."""
    with contextlib.ExitStack() as programs_running:
        with umask(0):
            started = programs_running.enter_context(programs.running(command, environment, log))
        yield started


def produce(folder: pathlib.Path, count: int) -> None:
    known = json.loads((folder / "local.json").read_text())
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{known['ports']['kafka']}"})
    for number in range(count):
        producer.produce("bids", json.dumps({"id": number, "text": f"t{number % 1000}" * 20}))
        if number % 10_000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def answers(url: str) -> bool:
    try:
        answer = urllib3.request("GET", f"{url}/healthz", timeout=2, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return bool(answer.status == 200)

"""Databases for tests whose changes Debezium captures: Postgres and MariaDB, from the system.

Both refuse to run as root; a test that does runs them as the users their packages have made.
MariaDB is captured by the connector for MySQL, which it is told is an old MySQL: the
connector asks newer ones for what MariaDB does not know.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from seamline.gateway.dev.local.ports import free_port
from support.waiting import wait_until

_LIBRARY = pathlib.Path("/usr/lib/postgresql")
_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])


def program(name: str) -> str | None:
    """The path of a database's program; None if it is not installed."""
    found = [str(path) for path in sorted(_LIBRARY.glob(f"*/bin/{name}"))]
    return found[-1] if found else shutil.which(name, path=_FOLDERS)


class Database(Protocol):
    """A running database server."""

    def execute(self, *statements: str) -> str:
        """Runs statements; returns what they print."""
        ...

    def rows(self, table: str, columns: Mapping[str, str]) -> dict[int, dict[str, Any]]:
        """Returns the rows of a table by their `id`.

        Args:
            table: The table.
            columns: What is read of each column: SQL with `{}` for its name.
        """
        ...

    def source(self, name: str, tables: Sequence[str], directory: pathlib.Path) -> dict[str, str]:
        """Returns the properties of a connector, whose topics are called `name.….table`."""
        ...

    def topic(self, name: str, table: str) -> str:
        """Returns the topic of a table's changes."""
        ...

    def wait_for(self, count: int) -> None:
        """Waits until that many connectors follow the database's log."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


def _called(name: str, *arguments: str, user: str = "", stdin: str | None = None) -> str:
    """Runs a program of a database; returns what it prints."""
    path = program(name)
    assert path is not None
    done = subprocess.run(
        [path, *arguments],
        check=False,
        cwd="/",
        input=stdin,
        stdout=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stderr=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        text=True,
        **({"user": user} if user else {}),  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr or name
    return str(done.stdout)


def _unprivileged(user: str, *folders: pathlib.Path) -> str:
    """Makes folders for a server; returns the user that it runs as, if not as this one."""
    for folder in folders:
        folder.mkdir(parents=True)
    if os.geteuid() != 0:
        return ""
    for folder in folders:
        shutil.chown(folder, user)
    return user


class Postgres:
    """A Postgres server with a logical log.

    Args:
        directory: Its folder, which everybody may enter.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.port = free_port()
        self._data = directory / "data"
        self._user = _unprivileged("postgres", self._data)
        self._run("initdb", "-A", "trust", "-U", "postgres")
        settings = {"wal_level": "logical", "port": self.port, "fsync": "off"}
        settings |= {"listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''"}
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self._run("pg_ctl", "-l", str(self._data / "log"), "-w", "start")

    def _run(self, name: str, *arguments: str) -> None:
        _called(name, "-D", str(self._data), *arguments, user=self._user)

    def execute(self, *statements: str) -> str:
        """See `Database.execute`."""
        return _called(
            *("psql", "-qAtX", "-v", "ON_ERROR_STOP=1"),
            *("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "postgres"),
            stdin=";\n".join(["SET timezone = 'UTC'", *statements]) + ";\n",
        )

    def rows(self, table: str, columns: Mapping[str, str]) -> dict[int, dict[str, Any]]:
        """See `Database.rows`; the values are Postgres's own JSON."""
        read = ", ".join(f"{sql.format(name)} AS {name}" for name, sql in columns.items())
        lines = self.execute(f"SELECT row_to_json(r) FROM (SELECT {read} FROM {table}) r")
        return {row["id"]: row for row in map(json.loads, lines.splitlines())}

    def source(self, name: str, tables: Sequence[str], directory: pathlib.Path) -> dict[str, str]:
        """See `Database.source`."""
        del directory
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "table.include.list": ",".join(f"public.{table}" for table in tables),
            "publication.autocreate.mode": "filtered",
            "publication.name": name,
            "slot.name": name,
        }

    def topic(self, name: str, table: str) -> str:
        """See `Database.topic`."""
        return f"{name}.public.{table}"

    def wait_for(self, count: int) -> None:
        """See `Database.wait_for`."""
        sql = "SELECT count(*) FROM pg_replication_slots WHERE active"
        wait_until(lambda: int(self.execute(sql)) == count, 240, "the connectors to read")

    def close(self) -> None:
        """See `Database.close`."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")


class MariaDB:
    """A MariaDB server with a log of rows.

    Args:
        directory: Its folder, which everybody may enter.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.port = free_port()
        self._sources = 0
        data, run = directory / "data", directory / "run"
        user = _unprivileged("mysql", data, run)
        common = ["--no-defaults", f"--datadir={data}"]
        made = ("--auth-root-authentication-method=normal", "--skip-test-db")
        _called("mariadb-install-db", *common, *made, user=user)
        path = program("mariadbd")
        assert path is not None
        self._process = subprocess.Popen(
            [
                *(path, *common, f"--port={self.port}", "--bind-address=127.0.0.1"),
                *(f"--socket={run}/socket", f"--pid-file={run}/pid", f"--log-error={run}/log"),
                *("--version=5.7.10-MariaDB-log", "--server-id=1", "--log-bin=log"),
                *("--binlog-format=ROW", "--sql-mode=", "--default-time-zone=+00:00"),
                "--innodb-flush-log-at-trx-commit=0",
            ],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **({"user": user} if user else {}),  # type: ignore[call-overload]
        )
        wait_until(self._answers, 60, "MariaDB to answer")
        self.execute("CREATE DATABASE d CHARACTER SET utf8mb4")

    def _answers(self) -> bool:
        try:
            return bool(self.execute("SELECT 1", database="mysql"))
        except AssertionError:
            return False

    def execute(self, *statements: str, database: str = "") -> str:
        """See `Database.execute`."""
        where = database or ("d" if statements[0][:15] != "CREATE DATABASE" else "mysql")
        return _called(
            *("mariadb", "--no-defaults", "--batch", "--skip-column-names"),
            *("--default-character-set=utf8mb4", "-h", "127.0.0.1", "-P", str(self.port), where),
            stdin=";\n".join(statements) + ";\n",
        )

    def rows(self, table: str, columns: Mapping[str, str]) -> dict[int, dict[str, Any]]:
        """See `Database.rows`; the values are texts, as the server's client has them."""
        read = ", ".join(f"HEX(CAST({sql.format(name)} AS CHAR))" for name, sql in columns.items())
        found = {}
        for line in self.execute(f"SELECT {read} FROM {table}").splitlines():
            cells = [None if t == "NULL" else bytes.fromhex(t).decode() for t in line.split("\t")]
            row: dict[str, Any] = dict(zip(columns, cells, strict=True))
            found[int(row["id"])] = row
        return found

    def source(self, name: str, tables: Sequence[str], directory: pathlib.Path) -> dict[str, str]:
        """See `Database.source`."""
        self._sources += 1
        return {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "root",
            "database.password": "",
            "database.server.id": str(5000 + self._sources),
            "database.include.list": "d",
            "table.include.list": ",".join(f"d.{table}" for table in tables),
            "bigint.unsigned.handling.mode": "precise",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(directory / f"{name}.history"),
        }

    def topic(self, name: str, table: str) -> str:
        """See `Database.topic`."""
        return f"{name}.d.{table}"

    def wait_for(self, count: int) -> None:
        """See `Database.wait_for`."""
        sql = "SELECT count(*) FROM information_schema.processlist WHERE command = 'Binlog Dump'"
        wait_until(lambda: int(self.execute(sql)) == count, 240, "the connectors to read")

    def close(self) -> None:
        """See `Database.close`."""
        self._process.kill()
        self._process.wait()

"""`make clients`: every client asks one gateway the same questions, and must get the same rows.

A table of every type, of which two rows are in files and two in the log, is read by Trino's JDBC
driver, command line and Python client, by ADBC, by ours, by what is built on them, and by curl,
from a gateway that is a process of its own. A line says what each client can do; `–` is what it has
no way to do itself. Then the gateway is killed while each of them fetches a million rows, and
started again: an error or all of the rows, never some of them. Ends with `all clients agree`, or
says who does not.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import urllib3
from support import programs
from support.stack import Stack
from support.waiting import wait_until

from clients.adapters import CLIENTS, Client, DbApi
from clients.canonical import rows as canonical

TABLE = "everything"
COLUMNS = {
    "id": ("bigint", "integer"),
    "ok": ("boolean", "boolean"),
    "small": ("integer", "integer"),
    "price": ("decimal(20, 4)", "number"),
    "ratio": ("double", "number"),
    "name": ("varchar", "text"),
    "data": ("varbinary", "bytes"),
    "uid": ("uuid", "uuid"),
    "day": ("date", "date"),
    "at": ("timestamp with time zone", "moment"),
    "then": ("timestamp", "moment"),
    "tags": ("array(varchar)", "array"),
    "nested": ("row(a bigint, b varchar)", "row"),
    "counts": ("map(varchar, bigint)", "map"),
}
RECORD: dict[str, Any] = {
    "ok": True, "small": -7, "price": "12345.6789", "ratio": 0.1, "name": "ü😀 'quoted', \"twice\"",
    "data": "AAH/", "uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "day": "2024-02-29",
    "at": "2024-02-29T01:02:03.123456Z", "then": "2024-02-29T01:02:03.000001",
    "tags": ["x", None], "nested": {"a": 1, "b": "y"}, "counts": {"k": 1},
}  # fmt: skip
KINDS = [kind for _, kind in COLUMNS.values()]
NULLS = "SELECT id FROM everything WHERE name IS NULL ORDER BY id"
MILLION = (
    "SELECT a.n * 1000 + b.n AS id, 'row' AS text FROM UNNEST(sequence(0, 999)) AS a(n)"
    " CROSS JOIN UNNEST(sequence(0, 999)) AS b(n) ORDER BY 1"
)
ENDLESS = (
    "SELECT count(*) FROM "
    + " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    + " WHERE u + v + w + x = -1"
)
ALL = (1_000_000, 999_999)
"""The number of these rows, and the last one."""
_START_S = 180.0
_MOMENTS = (0.2, 0.5, 0.8)
_ENDED_S = 30.0

Check = Callable[[Client], "bool | None"]


def _read(client: Client, wanted: list[tuple[Any, ...]]) -> bool:
    found = client.rows(f"SELECT * FROM {TABLE} ORDER BY id")
    return _same(canonical(found, KINDS), wanted)


def _parameters(client: Client) -> bool | None:
    sql = f"SELECT id FROM {TABLE} WHERE name = ? AND id > ? ORDER BY id"
    found = client.parameters(sql, [RECORD["name"], 1])
    if found is None:
        return None
    nothing = client.parameters(sql, ["' OR 1 = 1 --", 1]) or []
    return _same([int(row[0]) for row in found], [3]) and _same(list(nothing), [])


def _errors(client: Client) -> bool:
    try:
        client.rows(f"SELECT id,\n  nothing FROM {TABLE}")
    except Exception as error:  # noqa: BLE001 - every client has errors of its own
        text = str(error)
        if "Column 'nothing' cannot be resolved" in text:  # the words of Trino's clients
            return True
        return _has(text, "nothing does not exist")
    return _same("no error", "an error")


def _cancel(client: Client) -> bool | None:
    """The statement has ended on the gateway, and the client did not treat it as answered."""
    said = client.cancel(ENDLESS)
    if said is None:
        return None

    def states() -> set[str]:
        answer = urllib3.request("GET", f"{client.url}/api/v1/statements")
        listed = answer.json()["statements"]
        return {each["state"] for each in listed if each["statement"] == ENDLESS}

    wait_until(lambda: states() <= {"CANCELED"}, _ENDED_S, "the end of a canceled statement")
    return said != "no error" or _same(said, "an error")


def _columns(client: Client) -> bool | None:
    found = client.columns(TABLE)
    return None if found is None else _same(found, list(COLUMNS))


def _million(client: Client) -> bool:
    return _same(client.count(MILLION), ALL)


def _nulls(client: Client) -> bool:
    return _same([int(row[0]) for row in client.rows(NULLS)], [2, 4])


def _same(found: Any, wanted: Any) -> bool:
    if found == wanted:
        return True
    _say(f"    found  {str(found)[:600]}\n    wanted {str(wanted)[:600]}")
    return False


def _has(text: str, wanted: str) -> bool:
    return wanted in text or _same(text, wanted)


def _ask(kind: type[Client], gateway: _Gateway, wanted: list[tuple[Any, ...]]) -> dict[str, str]:
    """What a client can do."""
    checks: dict[str, Check] = {
        "types": lambda client: _read(client, wanted),
        "nulls": _nulls,
        "parameters": _parameters,
        "columns": _columns,
        "errors": _errors,
        "cancel": _cancel,
        "1,000,000 rows": _million,
    }
    told = {}
    seconds = 0.0
    with contextlib.closing(kind(gateway.url, gateway.flight_url)) as client:
        for name, check in checks.items():
            began = time.monotonic()
            try:
                done = check(client)
            except Exception as error:  # noqa: BLE001 - one client's failure is its own
                _say(f"    {name}: {type(error).__name__}: {error}")
                done = False
            seconds = time.monotonic() - began
            told[name] = "–" if done is None else "yes" if done else "NO"
    told["1,000,000 rows"] += f" {seconds:.1f} s"
    told["gateway killed"] = "yes" if _killed(kind, gateway, seconds) else "NO"
    return told


class _Gateway:
    """A gateway that is a process of its own, and may be killed.

    Args:
        stack: What is behind it.
        folder: Its own folder.
    """

    def __init__(self, stack: Stack, folder: pathlib.Path) -> None:
        self._log = folder / "gateway.log"
        state = str(folder / "state")
        self._environment = {
            **stack.environment,
            "SEAMLINE_STATE_DIRECTORY": state,
            "SEAMLINE_FLIGHT__PORT": "0",
        }
        self._block = contextlib.ExitStack()
        self._port = "0"
        self.url = self.flight_url = ""
        self.start()

    def start(self) -> None:
        """Starts it, at the address that it had before."""
        command = programs.seamline("serve", "--port", self._port)
        running = programs.running(command, self._environment, self._log)
        self._process = self._block.enter_context(running)

        def addresses() -> re.Match[str] | None:
            found = re.search(r"gateway on (http://\S+) and (grpc://\S+)", self._log.read_text())
            if self._process.poll() is not None:
                raise RuntimeError(self._log.read_text())
            return found

        found = wait_until(addresses, _START_S, "the gateway")
        assert found is not None
        self.url, self.flight_url = found.groups()
        self._port = self.url.rpartition(":")[2]
        self._environment["SEAMLINE_FLIGHT__PORT"] = self.flight_url.rpartition(":")[2]

    def kill(self) -> None:
        """Ends it without warning, with all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends it."""
        self._block.close()


def _killed(kind: type[Client], gateway: _Gateway, seconds: float) -> bool:
    """Kills the gateway at some moments of a fetch that takes so long."""
    for share in _MOMENTS:
        said: list[Any] = []
        with contextlib.closing(kind(gateway.url, gateway.flight_url)) as client:
            thread = threading.Thread(target=lambda c=client, s=said: s.append(_fetched(c)))
            thread.start()
            time.sleep(share * seconds)
            gateway.kill()
            gateway.start()
            thread.join(_START_S)
        if not said or (isinstance(said[0], tuple) and not _same(said[0], ALL)):
            return _same(said, "an error, or all rows")
        if isinstance(said[0], str) and not said[0].strip():
            return _same(said, "an error that says something")
    return True


def _fetched(client: Client) -> Any:
    """The count of a million rows, or why there is none."""
    try:
        return client.count(MILLION)
    except Exception as error:  # noqa: BLE001 - every client has errors of its own
        return f"{type(error).__name__}: {error}"


def _fill(stack: Stack) -> None:
    columns = ", ".join(f'"{name}" {type_}' for name, (type_, _) in COLUMNS.items())
    stack.create_topic(TABLE, 1)
    stack.create_table(TABLE, columns)
    stack.produce(TABLE, [{"id": 1, **RECORD}, {"id": 2}])
    stack.tier(TABLE)
    stack.produce(TABLE, [{"id": 3, **RECORD}, {"id": 4}])


def main() -> int:
    """Asks all clients; returns the exit status."""
    # a shell has what it starts in the background ignore interrupts, and so would the clients
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="seamline-clients-"))
    _say("starting a broker, Spark for tiering, and a gateway …")
    stack = Stack(folder / "stack")
    told: dict[str, dict[str, str]] = {}
    try:
        _fill(stack)
        with contextlib.closing(_Gateway(stack, folder)) as gateway:
            with contextlib.closing(DbApi(gateway.url, gateway.flight_url)) as ours:
                wanted = canonical(ours.rows(f"SELECT * FROM {TABLE} ORDER BY id"), KINDS)
            values = canonical([[1, *RECORD.values()]], KINDS)[0]
            nulls = (None,) * (len(KINDS) - 1)
            rows = [values, (2, *nulls), (3, *values[1:]), (4, *nulls)]
            if not _same(wanted, rows):
                return 1
            for kind in CLIENTS:
                _say(f"  {kind.name} …")
                told[kind.name] = _ask(kind, gateway, wanted)
    finally:
        stack.close()
        shutil.rmtree(folder, ignore_errors=True)
    _say(_table(told))
    wrong = [name for name, each in told.items() if "NO" in each.values()]
    _say(f"not as they should be: {', '.join(wrong)}" if wrong else "all clients agree")
    return 1 if wrong else 0


def _table(told: dict[str, dict[str, str]]) -> str:
    names = list(next(iter(told.values())))
    first = max(map(len, told))
    widths = [max(len(name), *(len(each[name]) for each in told.values())) for name in names]
    lines = [["client", *names], *([client, *each.values()] for client, each in told.items())]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, [first, *widths], strict=True))
        for line in lines
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

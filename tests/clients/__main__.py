"""`make clients`: every client asks one gateway the same, and must get the same rows.

A table of every type, of which two rows lie in files and two in the log, is read by Trino's JDBC
driver, command line and Python client, by ours, by what is built on them, and by curl, from a
gateway that is a process of its own. A line says what each client can do; `–` is what it has no way
to do itself. Ends with `all clients agree`, or says who does not.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
_START_S = 180.0
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
        return _has(str(error), "nothing does not exist")
    return _same("no error", "an error")


def _cancel(client: Client) -> bool | None:
    """The statement has ended on the gateway, and the client did not take it for answered."""
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
    return _same(client.count(MILLION), (1_000_000, 999_999))


def _nulls(client: Client) -> bool:
    return _same([int(row[0]) for row in client.rows(NULLS)], [2, 4])


def _same(found: Any, wanted: Any) -> bool:
    if found == wanted:
        return True
    _say(f"    found  {str(found)[:600]}\n    wanted {str(wanted)[:600]}")
    return False


def _has(text: str, wanted: str) -> bool:
    return wanted in text or _same(text, wanted)


def _ask(kind: type[Client], url: str, wanted: list[tuple[Any, ...]]) -> dict[str, str]:
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
    with contextlib.closing(kind(url)) as client:
        told = {}
        for name, check in checks.items():
            began = time.monotonic()
            try:
                done = check(client)
            except Exception as error:  # noqa: BLE001 - one client's failure is its own
                _say(f"    {name}: {type(error).__name__}: {error}")
                done = False
            seconds = f" {time.monotonic() - began:.1f} s" if name.endswith("rows") else ""
            told[name] = "–" if done is None else f"yes{seconds}" if done else "NO"
        return told


@contextlib.contextmanager
def _gateway(stack: Stack, folder: pathlib.Path) -> Iterator[str]:
    """A gateway that is a process of its own."""
    log = folder / "gateway.log"
    environment = {**stack.environment, "SEAMLINE_STATE_DIRECTORY": str(folder / "state")}
    command = programs.seamline("serve", "--port", "0")
    with programs.running(command, environment, log) as process:

        def address() -> str | None:
            found = re.search(r"gateway on (http://\S+)", log.read_text())
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            return found[1] if found else None

        yield str(wait_until(address, _START_S, "the gateway"))


def _fill(stack: Stack) -> None:
    columns = ", ".join(f'"{name}" {type_}' for name, (type_, _) in COLUMNS.items())
    stack.create_topic(TABLE, 1)
    stack.create_table(TABLE, columns)
    stack.produce(TABLE, [{"id": 1, **RECORD}, {"id": 2}])
    stack.tier(TABLE)
    stack.produce(TABLE, [{"id": 3, **RECORD}, {"id": 4}])


def main() -> int:
    """Asks all clients; gives the exit status."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="seamline-clients-"))
    _say("starting a broker, Spark for tiering, and a gateway …")
    stack = Stack(folder / "stack")
    told: dict[str, dict[str, str]] = {}
    try:
        _fill(stack)
        with _gateway(stack, folder) as url:
            with contextlib.closing(DbApi(url)) as ours:
                wanted = canonical(ours.rows(f"SELECT * FROM {TABLE} ORDER BY id"), KINDS)
            values = canonical([[1, *RECORD.values()]], KINDS)[0]
            nulls = (None,) * (len(KINDS) - 1)
            rows = [values, (2, *nulls), (3, *values[1:]), (4, *nulls)]
            if not _same(wanted, rows):
                return 1
            for kind in CLIENTS:
                _say(f"  {kind.name} …")
                told[kind.name] = _ask(kind, url, wanted)
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

"""Goal: what somebody may not see can neither be counted, measured nor quoted.

Method: tables that are the same but for rows that a filter hides, and tables that are the same but
for values that a mask or a denied column hides: more or fewer of them, in other places, longer or
shorter. Everything that can be asked about a table is asked about each of them, by every route, by
somebody who may not see these rows or values. The answers are equal, letter for letter, except for
names that are made anew each time: of statements, snapshots, files and moments.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from support.ruled import Ruled

import seamline
from seamline.gateway.names import VARIANTS

SEED = 7
ALIKE = 4
"""Tables of each kind that differ in what is hidden."""
RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP, GRANT_SELECT]}
- {user: ann, table: rows_.*, privileges: [SELECT, INSERT], filter: region = 'eu'}
- user: mat
  table: values_.*
  privileges: [SELECT]
  columns: [{name: card, mask: "'*'"}, {name: note, allow: false}]
- {user: vic, table: view_.*, privileges: [SELECT]}
topics: [{user: boss}]
functions: [{privileges: [EXECUTE]}]
system_session_properties: [{allow: true}]
"""
PEOPLE: dict[str, Sequence[str]] = {"boss": (), "ann": (), "mat": (), "vic": ()}
COLUMNS = "id bigint, region varchar, card varchar, note varchar"
KINDS = {
    "rows_hot": "ann", "rows_cold": "ann", "rows_bad": "ann", "rows_trimmed": "ann",
    "values_hot": "mat", "values_cold": "mat", "values_bad": "mat", "view_hot": "vic",
}  # fmt: skip
"""Kinds of tables, and who asks about them."""
ASKED = (
    "SELECT id, region FROM {t} ORDER BY id",
    "SELECT * FROM {t} ORDER BY id",
    "SELECT count(*), max(id), count(DISTINCT region) FROM {t}",
    "SELECT count(*) FROM {t} WHERE id < 3 OR region <> 'eu'",
    "SELECT id FROM {t} ORDER BY id LIMIT 1",
    "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id ORDER BY 1",
    "SELECT id, _kafka_partition FROM {t} ORDER BY _kafka_partition, _kafka_offset",
    "SELECT max(_kafka_offset) FROM {t}",
    "SELECT max(_kafka_batch) FROM {t}",
    'SELECT "$path", "$pos" FROM {t}',
    "SELECT length(card) FROM {t} ORDER BY id",
    "SELECT note FROM {t}",
    "SELECT id FROM {t} WHERE CAST(card AS bigint) > 0 ORDER BY id",
    "SELECT id FROM {t} WHERE 1 / (id - 100) > 0 ORDER BY id",
    "SELECT * FROM {t} FOR TIMESTAMP AS OF TIMESTAMP '1990-01-01 00:00:00 UTC'",
    "SELECT count(*) FROM {t} FOR VERSION AS OF 1",
    "SELECT id FROM TABLE(changes('{t}', 'beginning')) ORDER BY id",
    "SELECT id FROM TABLE(changes('{t}', 'beginning', NULL, 2)) ORDER BY id",
    "EXPLAIN SELECT * FROM {t}",
    "EXPLAIN SELECT * FROM {t} WHERE id = 1",
    "EXPLAIN (FORMAT JSON) SELECT * FROM {t}",
    "EXPLAIN (TYPE IO) SELECT * FROM {t}",
    "EXPLAIN (TYPE LOGICAL) SELECT * FROM {t}",
    "EXPLAIN ANALYZE SELECT count(*) FROM {t}",
    "EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM {t}",
    "SHOW STATS FOR {t}",
    "SHOW STATS FOR (SELECT * FROM {t})",
    "DESCRIBE {t}",
    "SHOW CREATE TABLE {t}",
    "SELECT * FROM information_schema.tables WHERE table_name = '{t}'",
    "SELECT * FROM information_schema.columns WHERE table_name = '{t}'",
    "SELECT * FROM system.metadata.table_comments WHERE table_name = '{t}'",
    "SELECT * FROM system.jdbc.tables WHERE table_name = '{t}'",
    *(f'SELECT * FROM "{{t}}${variant}"' for variant in VARIANTS),
    *(f'SELECT count(*) FROM "{{t}}${variant}"' for variant in VARIANTS),
    *(f'EXPLAIN SELECT * FROM "{{t}}${variant}"' for variant in ("hot", "cold", "changes")),
)
NEW_EACH_TIME = {
    *("statement_id", "query_id", "elapsed_s", "submitted_at", "finished_at", "as_of", "topic_id"),
    "computed_at",
    *("token", "session", "write_token", "id", "infoUri", "nextUri", "partialCancelUri"),
    *("wallTimeMillis", "elapsedTimeMillis", "metadata_location", "state", "progressPercentage"),
}
"""Fields that nobody can learn from: times, ids and texts that nobody can read."""
ANEW = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), "UUID"),
    (re.compile(r"Ran in [0-9.]+ s"), "Ran"),
    (re.compile(r"\b[0-9]{15,19}\b"), "SNAPSHOT"),
    (re.compile(r"\btopic-[0-9]+\b"), "TOPIC"),
    (re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:.]+ UTC"), "NOW"),
)


def seen_rows() -> list[dict[str, Any]]:
    return [{"id": n, "region": "eu", "card": f"{4000 + n}", "note": f"n{n}"} for n in range(6)]


def with_hidden_rows(chance: random.Random) -> list[dict[str, Any]]:
    """The rows to be seen in their order, and others between them."""
    found: list[dict[str, Any]] = []
    for row in [*seen_rows(), None]:
        for _ in range(chance.choice([0, 1, 3, 30])):
            text = "x" * chance.choice([1, 5, 500])
            number = chance.randint(100, 10_000)
            found.append({"id": number, "region": "us", "card": f"c{number}", "note": text})
        if row is not None:
            found.append(row)
    return found


def with_hidden_values(chance: random.Random) -> list[dict[str, Any]]:
    """The same rows, with other values of the columns that are not to be seen."""
    text = "y" * chance.choice([1, 40, 400, 4000])
    return [
        {**row, "card": f"{chance.randint(0, 9)}{text}", "note": text + str(chance.random())}
        for row in seen_rows()
    ]


class World(Ruled):
    """A gateway with some tables of each kind."""

    def make(self, kind: str, number: int) -> None:
        """Makes a table; what is hidden in it depends on the number."""
        name, chance = f"{kind}_{number}", random.Random(f"{SEED}/{kind}/{number}")
        rows = (with_hidden_values if kind.startswith("values") else with_hidden_rows)(chance)
        if kind == "rows_cold" or kind == "values_cold":
            values = ", ".join(str(tuple(row.values())) for row in rows)
            names = "id, region, card, note"
            self.rows("boss", f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) t({names})")
            return
        base = name.replace("view_", "base_")
        self.memory.create_topic(base, 2)
        self.rows("boss", f"CREATE TABLE {base} ({COLUMNS}) WITH (topic = '{base}')")
        for row in rows:
            self.memory.produce(base, row["id"] % 2, json.dumps(row).encode(), key=b"k")
        if kind.endswith("bad"):
            text = {"id": 1, "note": {"secret": "z" * chance.randint(1, 99)}}
            for _ in range(chance.randint(1, 3) if kind.startswith("rows") else 1):
                self.memory.produce(base, 0, json.dumps({**text, "region": "us"}).encode())
        if kind.endswith("trimmed"):
            self.rows("ann", f"SELECT * FROM {base}")
            self.memory.delete_records(base, 0, chance.randint(1, 3))
        if kind.startswith("view"):
            where = "WHERE region = 'eu'"
            view = f"SELECT id, region, card FROM {base} {where}"
            self.rows("boss", f"CREATE VIEW {name} SECURITY DEFINER AS {view}")

    def answers(self, who: str, table: str) -> Iterator[tuple[str, Any]]:
        """Everything that somebody is told about a table, by what was asked."""
        for sql in ASKED:
            asked = sql.format(t=table)
            yield sql, self.ended(who, {"statement": asked})
            yield f"listed: {sql}", self.told(who, "GET", "/api/v1/statements?limit=1")
        select = f"SELECT id, region FROM {table} ORDER BY id"
        for form in ("json", "csv", "arrow"):
            path = f"/api/v1/query?format={form}&engine=duckdb"
            yield f"query: {form}", self.told(who, "POST", path, data=select)
        yield "trino", list(self.by_trino(who, select))
        yield "seams", self.told(who, "POST", "/api/v1/seams", json={"table": table})
        for catalog in ("iceberg", "iceberg-plan"):
            path = f"/{catalog}/v1/lake/namespaces/default/tables/{table}"
            for more in ("", "/credentials", "?snapshots=all"):
                yield f"{catalog}{more}", self.told(who, "GET", path + more)
            yield f"{catalog} plan", self.told(who, "POST", f"{path}/plan", json={})
        yield "metrics", self.told(who, "GET", "/metrics")
        for offset in (0, 10, 40, 100) if who != "mat" else ():  # offsets are no secret to mat
            write = seamline.write_token({0: offset}, table=table)
            yield f"write {offset}", self.ended(who, {"statement": select, "after": [write]})

    def ended(self, who: str, body: Mapping[str, Any]) -> Any:
        """What a statement ends with."""
        path = "/api/v1/statements"
        answer = self.ask(who, "POST", path, json={**body, "wait_timeout": 60})
        while answer.get_json().get("state") in {"PENDING", "RUNNING"}:
            answer = self.ask(who, "GET", f"{path}/{answer.get_json()['statement_id']}")
        return answer.status_code, plain(answer.get_json())

    def by_trino(self, who: str, sql: str) -> Iterator[Any]:
        """The pages of a statement by Trino's protocol."""
        page = self.ask(who, "POST", "/v1/statement", data=sql).get_json()
        for _ in range(20):
            if "data" in page or "nextUri" not in page:
                yield plain({name: page.get(name) for name in ("data", "columns", "error")})
            if "nextUri" not in page:
                yield {name: page["stats"][name] for name in ("processedRows", "processedBytes")}
                return
            page = self.ask(who, "GET", re.sub(r"^https?://[^/]+", "", page["nextUri"])).get_json()

    def told(self, who: str, method: str, path: str, **options: Any) -> Any:
        """An answer, without what is new each time."""
        answer = self.ask(who, method, path, **options)
        body = answer.get_json() if answer.is_json else answer.get_data().decode("latin-1")
        return answer.status_code, plain(body)


def plain(value: Any) -> Any:
    """A value without what is new each time."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items() if name not in NEW_EACH_TIME}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("counting"), RULES, PEOPLE)
    with contextlib.closing(made.gateway):
        yield made


@pytest.mark.one_in(prove=6)
@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in {"rows_hot", "values_hot"} else pytest.param(kind, marks=pytest.mark.prove)
        for kind in KINDS
    ],
)
def test_tables_that_differ_in_what_is_hidden_look_the_same(world: World, kind: str) -> None:
    who = KINDS[kind]
    count = 2 if kind in {"rows_hot", "values_hot"} else ALIKE
    expected: dict[str, Any] = {}
    failures = []
    for number in range(count):
        name = f"{kind}_{number}"
        world.make(kind, number)
        for asked, answer in world.answers(who, name):
            found = json.dumps(answer, default=str).replace(name, "T")
            found = found.replace(name.replace("view_", "base_"), "B")
            for pattern, instead in ANEW:
                found = pattern.sub(instead, found)
            if expected.setdefault(asked, found) != found:
                pairs = enumerate(zip(expected[asked], found, strict=False))
                begin = next((place for place, (one, other) in pairs if one != other), 60)
                parts = (text[max(0, begin - 60) :][:160] for text in (expected[asked], found))
                failures.append("\n  ".join((asked, *parts)))
    assert len(expected) > len(ASKED)
    assert not failures, "\n\n".join(failures)
    is_read = not kind.endswith(("bad", "trimmed"))
    assert ('"eu"' in expected[ASKED[0]]) == is_read, expected[ASKED[0]]


def test_nobody_reads_a_token_of_rows_that_are_hidden(world: World) -> None:
    world.make("rows_hot", 9)
    sql = "SELECT count(*) FROM rows_hot_9"
    body = world.ask("ann", "POST", "/api/v1/statements", json={"statement": sql}).get_json()
    for token in (body["token"], body["session"]):
        payload = token.removeprefix(".").split(".")[0]
        text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        with contextlib.suppress(zlib.error):
            text = zlib.decompress(text)
        assert b"ann" in text
        assert b"rows_hot" not in text
        assert world.rows("ann", sql, token=token) == [(6,)]

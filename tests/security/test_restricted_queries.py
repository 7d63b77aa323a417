"""Goal: a query of somebody who may not see all is answered as if there were nothing else.

Method: random tables, and random rules over them: rows that are left out, columns that are denied,
masks. What is to be seen of each table is computed here, in Python. Random queries over that are
asked of the whole tables under the rules, and of plain DuckDB over the rest alone; among the long
proofs also of a gateway with a rules file, on both engines, over cold, hot and split rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from fuzz.answers import disagreement
from fuzz.oracle import Oracle
from fuzz.queries import statement
from fuzz.run import judge
from fuzz.schema import Table, tables
from fuzz.targets import Live, Offline, duckdb_engine
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.gateway.access import rules
from seamline.sql.row_filters_and_masks import Restriction
from seamline.sql.types import quoted

SEED = 11
Row = Mapping[str, Any]
FILTERS: tuple[tuple[str | None, Callable[[Row], bool]], ...] = (
    (None, lambda row: True),
    ("k = 1", lambda row: row["k"] == 1),
    ("k IS NULL OR id % 2 = 0", lambda row: row["k"] is None or row["id"] % 2 == 0),
    ("id > 3 AND coalesce(k, 0) < 2", lambda row: row["id"] > 3 and (row["k"] or 0) < 2),
    ("id IN (1, 2, 5) OR k = 3", lambda row: row["id"] in (1, 2, 5) or row["k"] == 3),
    ("false", lambda row: False),
    ("current_user = 'nobody'", lambda row: False),
    ("NULL", lambda row: False),
)
MASKS: tuple[tuple[str, Callable[[Any, Row], Any]], ...] = (
    ("NULL", lambda value, row: None),
    ("CASE WHEN id % 3 = 0 THEN {c} END", lambda v, row: v if row["id"] % 3 == 0 else None),
    ("CASE WHEN k = 1 THEN NULL ELSE {c} END", lambda v, row: None if row["k"] == 1 else v),
    ("if({c} IS NULL, {c}, {c})", lambda value, row: value),
)


@dataclasses.dataclass(frozen=True)
class Restricted:
    """A table, what one may see of it, and the rule that says so."""

    whole: Table
    seen: Table
    filter: str | None
    masks: Mapping[str, str]
    denied: frozenset[str]

    @property
    def restriction(self) -> Restriction:
        """The rule, as a statement is bound with it."""
        condition = None if self.filter is None else rules.expression(self.filter)
        masks = {name.lower(): rules.expression(text) for name, text in self.masks.items()}
        return Restriction(condition, masks, frozenset(name.lower() for name in self.denied))

    def rule(self, schema: str) -> dict[str, Any]:
        """The rule, as a rules file has it."""
        hidden = [{"name": name, "allow": False} for name in sorted(self.denied)]
        masked = [{"name": name, "mask": text} for name, text in self.masks.items()]
        rule = {
            "schema": schema,
            "table": self.whole.name,
            "privileges": ["SELECT"],
            "columns": hidden + masked,
        }
        return rule if self.filter is None else {**rule, "filter": self.filter}


def restricted(table: Table, chance: random.Random) -> Restricted:
    """A table under a random rule."""
    condition, holds = chance.choice(FILTERS)
    others = [column.name for column in table.columns[2:]]
    denied = frozenset(name for name in others if chance.random() < 0.2)
    masked = {name: chance.choice(MASKS) for name in others if chance.random() < 0.4}
    masked = {name: mask for name, mask in masked.items() if name not in denied}
    names = [column.name for column in table.columns]
    rows = []
    for values in table.rows:
        row = dict(zip(names, values, strict=True))
        if holds(row):
            rows.append(
                tuple(
                    masked[name][1](value, row) if name in masked else value
                    for name, value in row.items()
                    if name not in denied
                )
            )
    columns = tuple(column for column in table.columns if column.name not in denied)
    seen = Table(table.name, columns, tuple(rows), len(rows))
    masks = {name: text.format(c=quoted(name)) for name, (text, _) in masked.items()}
    return Restricted(table, seen, condition, masks, denied)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBWorkers]:
    made = duckdb_engine(tmp_path_factory.mktemp("restricted"))
    yield made
    made.close()


def _drawn(number: int) -> list[Restricted]:
    chance = random.Random(f"rules {SEED}/{number}")
    return [restricted(table, chance) for table in tables(f"rules {SEED}/{number}")]


@pytest.mark.parametrize(
    ("batches", "size"),
    [(1, 20), pytest.param(15, 20, marks=pytest.mark.soak)],
    ids=("some", "many"),
)
def test_queries_see_what_may_be_seen(
    batches: int, size: int, engine: DuckDBWorkers, scratch: pathlib.Path
) -> None:
    failures, rows, judged = [], 0, 0
    for number in range(batches):
        drawn = _drawn(number)
        seen: Sequence[Table] = [one.seen for one in drawn]
        restrictions = {one.whole.name: one.restriction for one in drawn}
        folders = scratch / "whole", scratch / "seen"
        for folder in folders:
            folder.mkdir(exist_ok=True)
        whole = Offline([one.whole for one in drawn], folders[0], engine, restrictions)
        rest, oracle = Offline(seen, folders[1], engine), Oracle(seen)
        for query_number in range(size):
            query = statement(f"rules {SEED}/{number}/{query_number}", seen)
            verdict = judge(query, whole, oracle, spark=False)
            expected = rest.answer(query, "duckdb")
            found = verdict.answers["duckdb"]
            rows += found.rows is not None
            judged += "plain" in verdict.answers
            wrong = verdict.failure or disagreement(found, expected)
            if wrong:
                failures.append(f"{wrong}\n{found}\n{expected}\n{query.node.trino}")
    assert not failures, "\n\n".join(failures)
    assert rows > batches * size * 0.5
    assert judged > batches * size * 0.1


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.parametrize(
    ("worlds", "size"), [(1, 12), pytest.param(10, 50, marks=pytest.mark.soak)], ids=("some", "500")
)
def test_queries_see_what_may_be_seen_by_every_route(
    worlds: int, size: int, stack: Stack, tmp_path: pathlib.Path, name: str
) -> None:
    """On both engines, and by tokens once there is more; readers of files get all or nothing."""
    failures: list[str] = []
    rows = again = refused = 0
    for world in range(worlds):
        schema, folder = f"{name}_{world}", tmp_path / str(world)
        folder.mkdir()
        drawn = _drawn(world)
        with contextlib.closing(_gateway(drawn, stack, folder, schema)) as gateway:
            live = Live([one.whole for one in drawn], stack, gateway, schema)
            oracle, asked = Oracle([one.seen for one in drawn]), []
            for number in range(size):
                query = statement(f"rules {SEED}/live/{world}/{number}", [o.seen for o in drawn])
                verdict = judge(query, live, oracle, spark=True)
                rows += verdict.answers["spark"].rows is not None
                if verdict.failure:
                    failures.append(f"{verdict.failure}\n{query.node.trino}\n{verdict.answers}")
                asked.append((query, *live.with_token(query, "duckdb")))
            for one in drawn:
                stack.produce(f"{schema}.{one.whole.name}", one.whole.records()[:3])
            for query, expected, token in asked:
                if token is None:
                    continue
                found, _ = live.with_token(query, "duckdb", token)
                again += found.rows is not None
                if wrong := disagreement(found, expected):
                    failures.append(f"token: {wrong}\n{found}\n{expected}\n{query.node.trino}")
            refused += _refused(gateway, drawn, schema)
    assert not failures, "\n\n".join(failures)
    assert rows > worlds * size * 0.6
    assert again > worlds * size * 0.6
    assert refused > 0


def _gateway(
    drawn: Sequence[Restricted], stack: Stack, folder: pathlib.Path, schema: str
) -> Gateway:
    """A gateway with the rules of these tables."""
    file = folder / "rules.json"
    file.write_text(json.dumps({"tables": [one.rule(schema) for one in drawn]}), encoding="utf-8")
    auth = stack.config.auth.model_copy(update={"rules": str(file)})
    own = {"auth": auth, "state_directory": str(folder / "state")}
    return Gateway(stack.config.model_copy(update=own))


def _refused(gateway: Gateway, drawn: Sequence[Restricted], schema: str) -> int:
    """How many tables are refused as virtual snapshots: those that are not seen whole."""
    client, count = gateway.app.test_client(), 0
    for one in drawn:
        is_restricted = bool(one.filter is not None or one.masks or one.denied)
        for root in ("iceberg", "iceberg-plan"):
            path = f"/{root}/v1/lake/namespaces/{schema}/tables/{one.whole.name}"
            answer = client.get(path)
            assert answer.status_code == (403 if is_restricted else 200), (path, answer.text)
        count += is_restricted
    return count

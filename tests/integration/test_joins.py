"""Goal: joins of live tables answer the same on both engines, whatever has been tiered.

Method: two tables, half tiered, joined in every way that DuckDB hands filters on in; the answers
are compared with those of the same statements over DuckDB's own tables of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.gateway import Gateway
from support.stack import Stack

ORDERS = [
    {"id": n, "customer": n * 7 % 600, "price": f"{n % 90}.50", "code": f"c{n % 500}"}
    for n in range(6_000)
]
CUSTOMERS = [{"id": n, "segment": n % 40, "code": f"c{n}"} for n in range(500)]
SELECTIVE = "(SELECT id, segment, code FROM {c} WHERE segment < 6) AS c"
STATEMENTS = [
    f"SELECT count(*), sum(o.id) FROM {{o}} o JOIN {SELECTIVE} ON o.customer = c.id",
    f"SELECT count(*), sum(o.id) FROM {{o}} o JOIN {SELECTIVE} ON o.code = c.code",
    f"SELECT count(*), count(c.id) FROM {{o}} o LEFT JOIN {SELECTIVE} ON o.customer = c.id",
    f"SELECT count(*), count(o.id) FROM {{o}} o RIGHT JOIN {SELECTIVE} ON o.customer = c.id",
    f"SELECT count(*), count(o.id) FROM {{o}} o FULL JOIN {SELECTIVE} ON o.customer = c.id",
    "SELECT count(*) FROM {o} WHERE customer IN (SELECT id FROM {c} WHERE segment < 6)",
    "SELECT count(*) FROM {o} WHERE customer NOT IN (SELECT id FROM {c} WHERE segment < 6)",
    "SELECT count(*) FROM {o} o WHERE EXISTS (SELECT 1 FROM {c} c WHERE c.code = o.code"
    " AND c.segment < 6)",
    "SELECT count(*) FROM {o} o WHERE NOT EXISTS (SELECT 1 FROM {c} c WHERE c.id = o.customer)",
    "SELECT count(*) FROM {o} x JOIN {o} y ON x.customer = y.customer WHERE y.price > 80 AND"
    " y.id < 1000",
    "SELECT c.segment, sum(o.price) FROM {o} o JOIN {c} c ON o.customer = c.id WHERE c.segment < 6"
    " GROUP BY c.segment",
    "SELECT count(*) FROM {o} WHERE customer = (SELECT max(id) FROM {c} WHERE segment < 6)",
    "SELECT count(*), sum(o.id) FROM {o} o JOIN (SELECT id FROM {c} ORDER BY id LIMIT 70) c"
    " ON o.customer = c.id",
]


def plain_rows(statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        for name, records in (("o", ORDERS), ("c", CUSTOMERS)):
            connection.register("given", pa.Table.from_pylist(records))
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        connection.execute("ALTER TABLE o ALTER price TYPE decimal(9, 2)")
        return [sorted(connection.sql(sql.format(o="o", c="c")).fetchall()) for sql in statements]


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_joins_of_live_tables(stack: Stack, gateway: Gateway, name: str) -> None:
    orders, customers = f"{name}_o", f"{name}_c"
    tables = {
        orders: ("id bigint, customer bigint, price decimal(9, 2), code varchar", ORDERS),
        customers: ("id bigint, segment integer, code varchar", CUSTOMERS),
    }
    for table, (columns, records) in tables.items():
        stack.create_topic(table, 2)
        stack.create_table(table, columns)
        stack.produce(table, records[: len(records) // 2])
        stack.tier(table)
        stack.produce(table, records[len(records) // 2 :])
    wanted = plain_rows(STATEMENTS)
    for sql, rows in zip(STATEMENTS, wanted, strict=True):
        for engine in ("duckdb", "spark"):
            found = gateway.rows(sql.format(o=orders, c=customers), engine)
            assert sorted(found) == rows, (sql, engine)

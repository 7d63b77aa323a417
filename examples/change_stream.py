"""A clickstream joined with a database's customers, as both are at this moment.

Two topics become two tables. Each click is a row. The other topic has what Debezium captures from a
table of customers: inserts, updates, deletes; `mode = 'changelog'` turns them into the table that
the database has. The join runs before and after the records move into Iceberg, and once more after
a customer has changed.

    python examples/change_stream.py
"""

from __future__ import annotations

import subprocess
from typing import Any

from stand import URL, fresh_topics, produce

import seamline

CLICKS, CUSTOMERS = "example_clicks", "example_customers"
TABLES = (
    f"""CREATE TABLE {CLICKS} (customer bigint, page varchar)
        WITH (topic = '{CLICKS}', key = 'customer')""",
    f"""CREATE TABLE {CUSTOMERS} (id bigint, name varchar, plan varchar)
        WITH (topic = '{CUSTOMERS}', mode = 'changelog', envelope = 'debezium',
              primary_key = ARRAY['id'])""",
)
PAGES_BY_PLAN = f"""
    SELECT plan, count(*) AS clicks, count(DISTINCT name) AS people
    FROM {CLICKS} JOIN {CUSTOMERS} ON customer = id
    GROUP BY plan ORDER BY plan"""


def captured(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Any:
    """A Debezium record; its key keeps all changes of a customer in one partition."""
    row = after or before or {}
    return str(row["id"]), {"op": op, "before": before, "after": after}


def main() -> None:
    """Creates the tables, queries them, moves the records, and queries again."""
    ada = {"id": 1, "name": "Ada", "plan": "free"}
    ben = {"id": 2, "name": "Ben", "plan": "free"}
    cleo = {"id": 3, "name": "Cleo", "plan": "team"}
    with fresh_topics(CLICKS, CUSTOMERS), seamline.connect(URL) as connection:
        for table in TABLES:
            connection.execute(table)
        produce(CUSTOMERS, [captured("c", None, one) for one in (ada, ben, cleo)])
        produce(CUSTOMERS, [captured("d", ben, None)])  # Ben has left; his clicks have not
        produce(
            CLICKS, [(str(n % 3 + 1), {"customer": n % 3 + 1, "page": f"/{n}"}) for n in range(30)]
        )

        hot = connection.execute(PAGES_BY_PLAN)
        found = hot.fetchall()
        assert found == [("free", 10, 1), ("team", 10, 1)], found
        assert hot.receipt["rows_cold"] == 0

        # One batch for each table. In production this runs by itself, with --interval.
        subprocess.run(["seamline", "tier", CLICKS, CUSTOMERS, "--once"], check=True)
        cold = connection.execute(PAGES_BY_PLAN)
        assert cold.fetchall() == found, "moving records must not change an answer"
        assert cold.receipt["rows_hot"] == 0

        # The next change is in the next answer; there is no batch to wait for.
        produce(CUSTOMERS, [captured("u", ada, {**ada, "plan": "team"})])
        now = connection.execute(PAGES_BY_PLAN).fetchall()
        assert now == [("team", 20, 2)], now
    print("the same before and after tiering, and fresh after a change")


if __name__ == "__main__":
    main()

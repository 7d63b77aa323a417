"""An Iceberg table that a job of your own fills from a topic, read together with that topic.

The job below stands for whatever you have: it consumes a topic, and appends what it got with
PyIceberg every now and then. It stores the partition and the offset of each record, as most do, and
that is all it takes: the table is adopted with one statement, and from then on a query sees what
the job has not copied yet, and nothing twice. The job is not changed, and does not notice.

    python examples/adopt_a_table.py
"""

from __future__ import annotations

import json
import os
import pathlib

import pyarrow as pa
import yaml
from confluent_kafka import Consumer
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from stand import SERVERS, URL, fresh_topics, produce

import seamline

PAYMENTS = "example_payments"
SCHEMA = pa.schema(
    [
        ("k_partition", pa.int32()),
        ("k_offset", pa.int64()),
        ("id", pa.int64()),
        ("cents", pa.int64()),
    ]
)
TOTALS = f"SELECT count(*), count(DISTINCT id), sum(cents) FROM {PAYMENTS}"


def table_of_the_job() -> Table:
    """The job's table, in the catalog of the local stack."""
    home = pathlib.Path(os.environ.get("SEAMLINE_HOME", "~/.seamline")).expanduser()
    file = pathlib.Path(os.environ.get("SEAMLINE_CONFIG", home / "seamline.yaml"))
    entry = yaml.safe_load(file.read_text(encoding="utf-8"))["catalogs"]["lake"]
    catalog = load_catalog("lake", **entry)
    catalog.create_namespace_if_not_exists("default")
    if catalog.table_exists(f"default.{PAYMENTS}"):  # left behind by a run that was killed
        catalog.drop_table(f"default.{PAYMENTS}")
    return catalog.create_table(f"default.{PAYMENTS}", SCHEMA)


def copy(consumer: Consumer, table: Table, count: int) -> None:
    """One commit of the job: the next records of its topic, with their positions."""
    rows = [
        {"k_partition": m.partition(), "k_offset": m.offset(), **json.loads(m.value() or b"{}")}
        for m in consumer.consume(count, timeout=30)
    ]
    table.append(pa.Table.from_pylist(rows, SCHEMA))


def pay(numbers: range) -> None:
    """Payments arrive."""
    produce(PAYMENTS, [(str(n), {"id": n, "cents": 100 + n}) for n in numbers])


def expected(count: int) -> list[tuple[int, int, int]]:
    """The totals of that many payments."""
    return [(count, count, sum(100 + n for n in range(count)))]


def main() -> None:
    """Adopts the table while the job keeps running."""
    with fresh_topics(PAYMENTS), seamline.connect(URL) as connection:
        table = table_of_the_job()
        job = Consumer(
            {"bootstrap.servers": SERVERS, "group.id": PAYMENTS, "auto.offset.reset": "earliest"}
        )
        job.subscribe([PAYMENTS])
        try:
            pay(range(100))
            copy(job, table, 60)

            # It compares records in both tiers first, and refuses a table that does not fit.
            connection.execute(
                f"CREATE TABLE {PAYMENTS} WITH (adopt = true, topic = '{PAYMENTS}', "
                "columns = ARRAY['partition=k_partition', 'offset=k_offset'])"
            )
            answer = connection.execute(TOTALS)
            assert answer.fetchall() == expected(100)
            assert (answer.receipt["rows_cold"], answer.receipt["rows_hot"]) == (60, 40)

            # The job commits again, new payments arrive: the cut moves by itself.
            copy(job, table, 30)
            pay(range(100, 120))
            answer = connection.execute(TOTALS)
            assert answer.fetchall() == expected(120)
            assert (answer.receipt["rows_cold"], answer.receipt["rows_hot"]) == (90, 30)
        finally:
            job.close()
            table.catalog.drop_table(table.name())  # the table is the job's, and so is dropping it
    print("every payment once, whatever the job has copied")


if __name__ == "__main__":
    main()

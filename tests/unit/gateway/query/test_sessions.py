"""Goal: what another connection has read is not forgotten for what one's own has.

Method: real clients over a real gateway and a plain Iceberg table that is rolled back between what
the two have read.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from support import offline
from support.gateway import Gateway

import seamline

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
COUNT = "SELECT count(*) FROM sales.orders"


@pytest.fixture
def gateway(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    made = Gateway(offline.config(tmp_path))
    yield made
    made.close()


@pytest.fixture
def table(gateway: Gateway) -> Table:
    lake = gateway.config.catalogs["lake"]
    catalog = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
    catalog.create_namespace("sales")
    made = catalog.create_table("sales.orders", ROWS.schema)
    made.append(ROWS)
    return made


def test_after_of_another_connection_counts_beside_ones_own(gateway: Gateway, table: Table) -> None:
    first = table.current_snapshot()
    assert first is not None
    with gateway.connect() as one, gateway.connect() as other:
        assert one.execute(COUNT).fetchall() == [(3,)]
        table.append(ROWS)
        assert other.execute(COUNT).fetchall() == [(6,)]
        table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
        known = other.last_token
        assert known is not None
        with pytest.raises(seamline.Error) as caught:
            one.execute(COUNT, after=known)
        assert caught.value.code.name == "HISTORY_CHANGED"
        assert one.last_token is None, "said once"
        assert one.execute(COUNT).fetchall() == [(3,)]

        one.execute("SELECT 1", after=known)
        with pytest.raises(seamline.Error) as caught:
            one.execute(COUNT)
        assert caught.value.code.name == "HISTORY_CHANGED", "it has taken over what the other knew"


def test_a_statement_about_no_table_takes_nothing_from_a_session(
    gateway: Gateway, table: Table
) -> None:
    with gateway.connect() as connection:
        connection.execute(COUNT)
        known = connection.last_token
        for statement in ("SHOW SCHEMAS", "SELECT 1"):
            connection.execute(statement)
            assert connection.last_token
        table.append(ROWS)
        connection.execute(COUNT, after=[known] if known else [])
        assert connection.last_token != known

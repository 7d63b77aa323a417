"""Goal: tables with types that we do not write ourselves are adopted as far as records fill them.

Method: tables made by hand from the specification, with the tail of their topic in memory.
"""

from __future__ import annotations

import datetime
import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from support.adopting import NAMESPACE, POSITIONS, TOPIC, Shop
from support.handmade import File, Handmade, column, with_ids

from seamline.errors import NOT_SUPPORTED, SeamlineError

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5)
COLD, ALL = range(6), range(10)


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> Shop:
    made = Shop(tmp_path)
    made.connections.catalog("lake").pyiceberg.create_namespace(NAMESPACE)
    return made


def adopt(shop: Shop, type_: str, cold: pa.Array | None) -> None:
    """Ten records, of which the table has six; its last column has the type."""
    for number in ALL:
        moment = MOMENT + datetime.timedelta(microseconds=number)
        shop.log.produce(
            TOPIC, number % 2, json.dumps({"id": number, "t": moment.isoformat()}).encode()
        )
    plain = {"k_partition": "int", "k_offset": "long", "id": "long", "t": type_}
    schema = [column(place, *named) for place, named in enumerate(plain.items(), 1)]
    rows: dict[str, Any] = {
        "k_partition": pa.array([n % 2 for n in COLD], pa.int32()),
        "k_offset": pa.array([n // 2 for n in COLD], pa.int64()),
        "id": pa.array(COLD, pa.int64()),
        **({} if cold is None else {"t": cold}),
    }
    ids = {name: place for place, name in enumerate(plain, 1)}
    table = Handmade(shop.folder / "warehouse" / NAMESPACE / TOPIC, [schema], 3)
    made = table.write([File(with_ids(pa.table(rows), ids))])
    shop.connections.catalog("lake").pyiceberg.register_table((NAMESPACE, TOPIC), made)
    shop.adopt(columns=POSITIONS, force=True)


def test_nanoseconds_are_the_same_in_both_tiers(shop: Shop) -> None:
    epoch = int(MOMENT.replace(tzinfo=datetime.UTC).timestamp()) * 10**9
    adopt(shop, "timestamp_ns", pa.array([epoch + 1000 * n for n in COLD], pa.timestamp("ns")))
    gateway = shop.gateway()
    try:
        found = gateway.rows(f"SELECT id, t FROM {NAMESPACE}.{TOPIC} ORDER BY id")
        assert found == [(n, MOMENT + datetime.timedelta(microseconds=n)) for n in ALL]
        path = f"/iceberg/v1/lake/namespaces/{NAMESPACE}/tables/{TOPIC}"
        answer = gateway.app.test_client().get(path, base_url="http://127.0.0.1")
        assert answer.status_code == 406
        assert answer.json is not None
        assert "the column t is stored as nanoseconds" in answer.json["error"]["message"]
    finally:
        gateway.close()


@pytest.mark.parametrize("type_", ["variant", "unknown"])
def test_columns_that_no_record_fills(shop: Shop, type_: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        adopt(shop, type_, None)
    assert caught.value.code is NOT_SUPPORTED
    assert f"the column t, which is stored as {type_}" in caught.value.message

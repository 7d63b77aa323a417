"""Ibis over a gateway: `python ibis_program.py PORT TABLE`; writes what it finds as JSON."""

from __future__ import annotations

import json
import sys

import ibis

port, table = sys.argv[1:]
connection = ibis.trino.connect(
    host="127.0.0.1", port=int(port), user="ann", database="lake", schema="default"
)
bids = connection.table(table)
by_channel = bids.group_by("channel").agg(bids=bids.count(), total=bids.price.sum())
ranked = bids.mutate(rank=ibis.row_number().over(group_by="channel", order_by="id"))
names = ibis.memtable({"channel": [1, 2], "name": ["web", "shop"]})
connection.create_view(f"{table}_view", bids.filter(bids.id > 2), overwrite=True)
connection.create_table(f"{table}_copy", bids.select("id", "channel"))
connection.insert(f"{table}_copy", bids.select("id", "channel"))
found = {
    "schema": {name: str(type_) for name, type_ in bids.schema().items()},
    "place": [connection.current_catalog, connection.current_database],
    "tables": connection.list_tables(like=table),
    "groups": connection.execute(by_channel.order_by("channel")).values.tolist(),
    "ranks": connection.execute(ranked.order_by("id")["rank"]).tolist(),
    "joined": connection.execute(bids.join(names, "channel").order_by("id")["name"]).tolist(),
    "view": connection.execute(connection.table(f"{table}_view").count()),
    "copy": connection.execute(connection.table(f"{table}_copy").count()),
    "arrow": bids.order_by("id").id.to_pyarrow().to_pylist(),
}
connection.drop_view(f"{table}_view")
connection.drop_table(f"{table}_copy")
sys.stdout.write(json.dumps(found, default=float) + "\n")

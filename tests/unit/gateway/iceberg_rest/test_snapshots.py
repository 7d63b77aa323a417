"""Goal: a virtual snapshot that is kept comes back as it was, and its id follows from its rows.

Method: one snapshot written down by one gateway and read by the next, over a real folder.
"""

from __future__ import annotations

import pathlib

from support import seams

from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.virtual import VirtualSnapshot
from seamline.gateway.iceberg_rest.leases import Leases
from seamline.gateway.iceberg_rest.snapshots import ServedSnapshot, ServedSnapshots
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam

SEAM = Seam(
    table=("lake", "default", "t"),
    table_uuid="9c12d441",
    schema_id=3,
    cold=ColdPart(snapshot_id=7, epochs=Offsets({0: 1}), foreign_change_id=6),
    log=LogPart(
        cluster="main", topic="t", topic_id="topic-id", isolation="read_committed", pending=2
    ),
    boundary=Offsets({0: 5, 1: 0}),
    end=Offsets({0: 9, 1: 2}),
)
SNAPSHOT_ID = 2019795133005107501
"""Of these rows, in every version: engines may name it in statements that they keep."""


def test_the_id_follows_from_the_rows_alone() -> None:
    assert virtual.snapshot_id(SEAM, []) == SNAPSHOT_ID
    same = seams.replace(SEAM, pending=0, epochs=Offsets(), table=("lake", "default", "T"))
    assert virtual.snapshot_id(same, []) == SNAPSHOT_ID
    assert virtual.snapshot_id(SEAM, [SNAPSHOT_ID]) != SNAPSHOT_ID
    assert virtual.snapshot_id(SEAM, [], version=1) == SNAPSHOT_ID
    assert virtual.snapshot_id(SEAM, [], version=3) != SNAPSHOT_ID, "its rows have ids"
    for other in (
        seams.replace(SEAM, snapshot_id=8),
        seams.replace(SEAM, schema_id=4),
        seams.replace(SEAM, topic_id="another"),
        seams.replace(SEAM, boundary=Offsets({0: 4, 1: 0})),
        seams.replace(SEAM, end=Offsets({0: 9, 1: 3})),
        seams.replace(SEAM, end_epochs=Offsets({0: 1})),
    ):
        assert virtual.snapshot_id(other, []) != SNAPSHOT_ID


def test_the_next_gateway_knows_it(tmp_path: pathlib.Path) -> None:
    snapshot = VirtualSnapshot(
        SEAM, SNAPSHOT_ID, 12, 1700000000000, "file:///list.avro", {"operation": "append"}, 40, 4
    )
    kept = ServedSnapshot("decoder", snapshot, written=True, segments=("a", "b"), spec_ids=(0, 3))
    ServedSnapshots(Leases(tmp_path, 60)).keep(kept)
    leases = Leases(tmp_path, 60)
    records = ServedSnapshots(leases)
    found = records.find(SEAM.table_uuid, SNAPSHOT_ID)
    assert found == kept
    assert found.snapshot.summary == snapshot.summary
    assert found.seam == SEAM
    (lease,) = leases.held("snapshot")
    records.drop(lease.body)
    assert records.find(SEAM.table_uuid, SNAPSHOT_ID) is None

"""Goal: a new head of a table costs what is new in it, and is what PyIceberg makes of its text.

Method: heads with generated histories, written as several writers do, are parsed one after another
and compared with PyIceberg's own parser; what reaches that parser is counted. A table is committed
to several times, and the heads that its catalog still holds are counted.
"""

from __future__ import annotations

import copy
import gc
import json
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import strategies as st
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataWrapper
from support import offline

from seamline.connectors.iceberg.guard import named_files
from seamline.connectors.iceberg.heads import HeadParser
from seamline.connectors.iceberg.states import States

NAME = ("default", "t")
BEGUN: dict[str, Any] = {
    "location": "file:///t",
    "table-uuid": "8a5e0cf7-3b3f-4f6e-9b6a-6a9f0e2f1c11",
    "last-updated-ms": 1,
    "last-column-id": 1,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
        }
    ],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "properties": {'decoy "snapshots": [': '"snapshots":[{}]', "snapshots": "[1]"},
    "snapshots": [],
    "snapshot-log": [],
    "metadata-log": [],
    "refs": {},
    "format-version": 2,
    "last-sequence-number": 0,
}
WRITERS: dict[str, Callable[[Any], str]] = {
    "compact": lambda body: json.dumps(body, separators=(",", ":")),
    "spaced": json.dumps,
    "indented": lambda body: json.dumps(body, indent=1, ensure_ascii=False),
    "another order": lambda body: json.dumps(dict(reversed(body.items()))),
    "escaped": lambda body: json.dumps(body).replace('"snapshots"', '"snap\\u0073hots"'),
}


def commit(body: dict[str, Any], number: int) -> None:
    """Adds a snapshot to a head."""
    parent = body["snapshots"][-1:]
    snapshot = {
        "snapshot-id": number,
        **({"parent-snapshot-id": parent[0]["snapshot-id"]} if parent else {}),
        "sequence-number": number,
        "timestamp-ms": number,
        "manifest-list": f"file:///t/metadata/{number}.avro",
        "summary": {"operation": "append", "who": 'ü"}],{\\' * (number % 3)},
        "schema-id": 0,
    }
    body["snapshots"].append(snapshot)
    body["snapshot-log"].append({"snapshot-id": number, "timestamp-ms": number})
    entry = {"metadata-file": f"file:///t/metadata/{number}.json", "timestamp-ms": number}
    body["metadata-log"] = [*body["metadata-log"], entry][-5:]
    body["current-snapshot-id"] = number
    body["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}


def plain(text: str) -> TableMetadata:
    return TableMetadataWrapper.model_validate_json(text).root


CHANGES = st.sampled_from(["commit", "commit", "expire", "keep one", "roll back", "change"])
STEPS = st.lists(st.tuples(CHANGES, st.integers(1, 9), st.sampled_from([*WRITERS])), max_size=12)


@hypothesis.given(STEPS, st.sampled_from([*WRITERS]))
def test_every_head_is_what_pyiceberg_makes_of_it(
    steps: list[tuple[str, int, str]], writer: str
) -> None:
    parser, body, number = HeadParser(), copy.deepcopy(BEGUN), 0
    for change, count, other in steps:
        if change == "commit":
            for _ in range(count):
                number += 1
                commit(body, number)
        elif change == "expire":
            del body["snapshots"][:-1][:count], body["snapshots"][: -1 - count or None]
        elif change == "keep one":
            body["snapshots"][1:-count] = []
        elif change == "roll back":
            del body["snapshots"][-count:]
        elif body["snapshots"]:
            body["snapshots"][0]["summary"]["changed"] = str(number)
        text = WRITERS[other if count == 1 else writer](body)
        assert parser.parsed(text, plain, lambda metadata: metadata) == plain(text)


def heads_of(count: int) -> tuple[list[TableMetadata], list[str]]:
    """Parses heads with that many snapshots and one more; returns them and what was parsed."""
    parser, body, texts = HeadParser(), copy.deepcopy(BEGUN), list[str]()

    def parse(text: str) -> TableMetadata:
        texts.append(text)
        return plain(text)

    for number in range(1, count + 1):
        commit(body, number)
    heads = [parser.parsed(WRITERS["compact"](body), parse, lambda metadata: metadata)]
    commit(body, count + 1)
    heads.append(parser.parsed(WRITERS["compact"](body), parse, lambda metadata: metadata))
    return heads, texts


def test_only_what_is_new_in_a_head_is_parsed() -> None:
    heads, texts = heads_of(500)
    assert [len(head.snapshots) for head in heads] == [500, 501]
    (new,) = json.loads(texts[1])["snapshots"]
    assert new["snapshot-id"] == 501
    earlier, later = heads
    assert all(a is b for a, b in zip(earlier.snapshots, later.snapshots, strict=False))
    assert len(json.loads(texts[1])["snapshot-log"]) == 1


def test_other_lists_of_the_same_names_are_not_taken_for_the_metadatas_own() -> None:
    body = copy.deepcopy(BEGUN)
    commit(body, 1)
    odd = {"statistics": [], "x": {"snapshots": [{"snapshot-id": 7}]}, **body}
    parser = HeadParser()
    for _ in range(2):
        text = json.dumps(odd)
        assert parser.parsed(text, plain, lambda metadata: metadata) == plain(text)


def tables_of(heads: list[TableMetadata]) -> list[Any]:
    nothing: Any = None
    return [
        PyTable(NAME, head, f"file:///t/metadata/now-{number}.json", nothing, nothing)
        for number, head in enumerate(heads)
    ]


def test_states_share_the_snapshots_of_earlier_heads() -> None:
    states = States("lake", {})
    earlier, later = (states.of(NAME, table) for table in tables_of(heads_of(20)[0]))
    assert (len(earlier.snapshots), len(later.snapshots)) == (20, 21)
    assert all(later.snapshots[number] is one for number, one in earlier.snapshots.items())
    assert later.snapshot_log == (*earlier.snapshot_log, (21, 21))


def test_only_what_a_head_names_anew_is_checked() -> None:
    earlier, later = tables_of(heads_of(20)[0])
    assert len(list(named_files(later))) == 1 + 21 + 5
    assert list(named_files(later, earlier.metadata)) == [
        "file:///t/metadata/now-1.json",
        "file:///t/metadata/21.avro",
        "file:///t/metadata/21.json",
    ]


def test_a_catalog_keeps_two_heads_of_a_table(tmp_path: pathlib.Path) -> None:
    world = offline.MemoryWorld(tmp_path)
    world.catalog.create_namespace("default")
    world.rows("CREATE TABLE t (id bigint)")
    heads = []
    for number in range(6):
        world.rows(f"INSERT INTO t VALUES {number}")
        assert world.rows("SELECT count(*) FROM t") == [(number + 1,)]
        heads.append(weakref.ref(world.catalog.load_table(NAME).metadata))
    gc.collect()
    kept = [head() is not None for head in heads]
    world.gateway.close()
    assert kept == [False, False, False, False, True, True]

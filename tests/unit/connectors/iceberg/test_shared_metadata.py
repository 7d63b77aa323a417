"""Goal: metadata that statements share can be copied for a commit while others read it.

Method: something is looked up in a schema or a partition spec in the middle of such a copy, as
another thread might do.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

import seamline.connectors.iceberg.pyiceberg_internals  # noqa: F401


@dataclasses.dataclass(frozen=True)
class Meanwhile:
    """Something that happens when it is copied."""

    act: Callable[[], object]

    def __deepcopy__(self, memo: Any) -> None:
        self.act()


@pytest.mark.parametrize("kind", ["schemas", "partition_specs"])
def test_a_copy_is_made_while_others_look_something_up(kind: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, "file:///t", {"a": "b"})
    shared: Any = getattr(metadata, kind)[0]
    lookups: dict[str, Callable[[], object]] = {
        "schemas": lambda: shared.find_field("id"),
        "partition_specs": lambda: shared.source_id_to_fields_map,
    }
    lookup = lookups[kind]
    shared.__dict__["first"] = Meanwhile(lookup)
    shared.__dict__["then"] = None
    copied = copy.deepcopy(metadata)
    lookup()
    assert getattr(copied, kind)[0] is shared
    assert copied.properties == metadata.properties
    assert copied.properties is not metadata.properties

"""Gives the schemas, specs and sort orders that a commit adds ids that are free in the table.

A client numbers what it adds by the table that it has loaded. If others have added some meanwhile,
the number may be taken. A schema, spec or order that the table already has keeps its own number, as
in Iceberg's own catalogs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    TableUpdate,
)

LAST_ADDED = -1
_LEFT_OUT = -1_000_000
"""From here on, a partition field's id stands for one that the client has left out."""


def with_field_ids(spec: Any, first: int = PARTITION_FIELD_ID_START) -> Any:
    """Returns a partition spec as a client wrote it, with the ids that it may leave out.

    Args:
        spec: The spec, in the specification's form; anything else is returned unchanged.
        first: The id of the first field, if it has none.
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("fields"), Sequence):
        return spec
    fields = [
        {"field-id": first + position, **field} if isinstance(field, Mapping) else field
        for position, field in enumerate(spec["fields"])
    ]
    return {"spec-id": 0, **spec, "fields": fields}


def with_spec_ids(updates: Iterable[Any]) -> list[Any]:
    """Returns the updates of a commit as a client wrote them, with the ids it may leave out.

    `identified` replaces those of partition fields by free ones.
    """
    return [
        {**update, "spec": with_field_ids(update.get("spec"), _LEFT_OUT)}
        if isinstance(update, Mapping) and update.get("action") == "add-spec"
        else update
        for update in updates
    ]


class _Numbers:
    """The ids of one kind of thing, in a table and in a commit to it.

    Args:
        existing: The things that the table has, by id.
        content: Returns what makes two of them the same.
    """

    def __init__(self, existing: dict[int, Any], content: Callable[[Any], Any]) -> None:
        self._existing = existing
        self._content = content
        self._given: dict[int, int] = {}

    def add(self, number: int, thing: Any) -> tuple[int, bool]:
        """Returns the id of what a client adds with a number, and whether the table lacks it."""
        content = self._content(thing)
        same = [i for i, other in self._existing.items() if self._content(other) == content]
        is_new = not same
        own_id = same[0] if same else number
        if is_new and number in self._existing:
            own_id = max(self._existing) + 1
        self._existing[own_id] = thing
        self._given[number] = self._given[LAST_ADDED] = own_id
        return own_id, is_new

    def of(self, number: int) -> int:
        """Returns the id that a client's number stands for."""
        return self._given.get(number, number)


def renumbered(updates: Iterable[TableUpdate], metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Returns the updates with ids that are free in a table.

    Args:
        updates: What a client wants to change.
        metadata: The table as it is now.
    """
    schemas = _Numbers(
        {schema.schema_id: schema for schema in metadata.schemas},
        lambda schema: (schema.fields, sorted(schema.identifier_field_ids)),
    )
    specs = _Numbers({s.spec_id: s for s in metadata.partition_specs}, lambda spec: spec.fields)
    orders = _Numbers({o.order_id: o for o in metadata.sort_orders}, lambda order: order.fields)
    renumbered: list[TableUpdate] = []
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                number, is_new = schemas.add(schema.schema_id, schema)
                if is_new:
                    own = schema.model_copy(update={"schema_id": number})
                    renumbered.append(AddSchemaUpdate(schema_=own))
            case AddPartitionSpecUpdate(spec=spec):
                number, is_new = specs.add(spec.spec_id, spec)
                if is_new:
                    own_spec = spec.model_copy(update={"spec_id": number})
                    renumbered.append(AddPartitionSpecUpdate(spec=own_spec))
            case AddSortOrderUpdate(sort_order=order):
                number, is_new = orders.add(order.order_id, order)
                if is_new:
                    own_order = order.model_copy(update={"order_id": number})
                    renumbered.append(AddSortOrderUpdate(sort_order=own_order))
            case SetCurrentSchemaUpdate(schema_id=number):
                renumbered.append(SetCurrentSchemaUpdate(schema_id=schemas.of(number)))
            case SetDefaultSpecUpdate(spec_id=number):
                renumbered.append(SetDefaultSpecUpdate(spec_id=specs.of(number)))
            case SetDefaultSortOrderUpdate(sort_order_id=number):
                renumbered.append(SetDefaultSortOrderUpdate(sort_order_id=orders.of(number)))
            case AddSnapshotUpdate(snapshot=snapshot) if snapshot.schema_id is not None:
                own_id = schemas.of(snapshot.schema_id)
                copied = snapshot.model_copy(update={"schema_id": own_id})
                renumbered.append(AddSnapshotUpdate(snapshot=copied))
            case _:
                renumbered.append(update)
    return tuple(renumbered)


def identified(
    updates: Iterable[TableUpdate], metadata: TableMetadata | None
) -> tuple[TableUpdate, ...]:
    """Returns the updates with ids for the partition fields whose ids a client has left out.

    A field of the same source, transform and name keeps its id, as in Iceberg's own catalogs.

    Args:
        updates: What a client wants to change.
        metadata: The table as it is now; None if the commit creates it.
    """
    specs = () if metadata is None else metadata.partition_specs
    last = (metadata.last_partition_id if metadata else None) or PARTITION_FIELD_ID_START - 1
    ids = {_meaning(field): field.field_id for spec in specs for field in spec.fields}
    free = itertools.count(max([last, *ids.values()]) + 1)

    def own(field: PartitionField) -> PartitionField:
        if field.field_id >= 0:
            return field
        number = ids.get(_meaning(field)) or next(free)
        return field.model_copy(update={"field_id": number})

    return tuple(
        AddPartitionSpecUpdate(
            spec=PartitionSpec(*map(own, update.spec.fields), spec_id=update.spec.spec_id)
        )
        if isinstance(update, AddPartitionSpecUpdate)
        else update
        for update in updates
    )


def _meaning(field: PartitionField) -> tuple[Any, ...]:
    return (field.source_id, field.transform, field.name)

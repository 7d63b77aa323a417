"""The columns of a table, as a statement that reads it sees them."""

from __future__ import annotations

import dataclasses

from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql import columns
from seamline.sql.binder.qualify import Relation
from seamline.sql.types import Field


def stored_columns(state: TableState, seam: Seam) -> tuple[Field, ...]:
    """Returns the columns of the schema that the snapshot was written with."""
    return () if seam.cold.snapshot_id is None else state.schema_of(seam.cold.snapshot_id).columns


def columns_read(own: tuple[Field, ...], seam: Seam) -> tuple[Field, ...]:
    """Returns the columns of a table as it is read; those of its changes include a delete flag."""
    return (*own, columns.DELETED_FIELD) if seam.is_logged else own


def relation_of(fields: tuple[Field, ...], state: TableState | None = None) -> Relation:
    """Returns a table's columns; those of another writer's table are never hidden."""
    if state is not None and state.provider is not None:
        return Relation(fields)
    return Relation(fields, columns.METADATA_NAMES & {field.name for field in fields})


def with_places(relation: Relation) -> Relation:
    """Returns the columns of a plain table, with those that give a row's position."""
    taken = {field.name.lower() for field in relation.columns}
    places = tuple(field for field in columns.FILE_FIELDS if field.name not in taken)
    hidden = relation.hidden.union(field.name for field in places)
    return dataclasses.replace(relation, columns=(*relation.columns, *places), hidden=hidden)

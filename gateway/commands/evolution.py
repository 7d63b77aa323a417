"""The setting `evolution`: whether a table's columns follow the schemas of its topic."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats.envelopes import ENVELOPES
from seamline.connectors.kafka.formats.infer import Inferred
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import LatestSchema
from seamline.seam.options import AUTO, MANUAL, TableOptions

if TYPE_CHECKING:
    from seamline.gateway.commands.tables import TableDefinition

_FORMATS = frozenset({"avro", "protobuf", "json_schema"})
"""The formats whose values name their schema."""
_INFERRED = frozenset({"avro", "protobuf"})
"""The formats whose schema determines the columns of a table that is created without any."""


def settled(definition: TableDefinition, inferred: Inferred | None) -> TableDefinition:
    """Returns the definition with the setting resolved; it stays unset if values name no schema.

    If the schema determines the columns, the table also gets those of the schema's next version. If
    the user names the columns, those are the ones wanted. If records have several schemas, it is
    unknown which of them the table should follow, so it follows none.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    evolution = definition.evolution
    if evolution is None and definition.format in _FORMATS and not _is_fixed(definition):
        is_followed = definition.format in _INFERRED and inferred is not None
        is_mixed = inferred is not None and inferred.is_mixed
        evolution = AUTO if is_followed and not is_mixed else MANUAL
    if evolution == AUTO:
        _check(definition)
    return dataclasses.replace(definition, evolution=evolution)


def check_altered(binding: TopicBinding, value: object) -> None:
    """Refuses a value of `evolution` that an existing table cannot have.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if value == AUTO:
        if binding.boundary_provider is not None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "evolution = 'auto' is not available for a table that another writer fills",
                hint="Its writer owns its columns.",
            )
        _check(binding)


def _is_fixed(options: TableOptions) -> bool:
    """Whether the table names the schema of all values, which has no newer versions."""
    text = options.value_schema
    return text is not None and LatestSchema.parse(text) is None


def _check(options: TableOptions) -> None:
    format_, envelope, problem = options.format, options.envelope, ""
    if format_ not in _FORMATS:
        problem = f"values of format {format_} do not name a schema"
    elif _is_fixed(options):
        problem = "the table names the schema of all values itself"
    elif envelope and ENVELOPES[envelope].is_listed:
        problem = f"changes in the envelope {envelope} have no schema"
    if problem:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"evolution = 'auto' is not available for this table: {problem}",
            hint="Change its columns with ALTER TABLE.",
        )

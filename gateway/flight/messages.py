"""The messages of Arrow Flight and Flight SQL that the gateway uses, built from a description.

The description has a line per message and its fields: each field's name, number and type. A type is
a Protocol Buffers scalar, another message, or `<…>` for a map of strings to one. `?` marks an
optional field, `*` a repeated one. Commands and their answers are wrapped in an `Any`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from seamline.errors import INVALID_REQUEST, SeamlineError

_FLIGHT = "arrow.flight.protocol"
_SQL = "arrow.flight.protocol.sql"
_TYPE_URL = f"type.googleapis.com/{_SQL}."

_FLIGHT_MESSAGES = """
Empty:
HandshakeRequest: protocol_version 1 uint64, payload 2 bytes
HandshakeResponse: protocol_version 1 uint64, payload 2 bytes
Action: type 1 string, body 2 bytes
ActionType: type 1 string, description 2 string
Result: body 1 bytes
SchemaResult: schema 1 bytes
Descriptor: type 1 int32, cmd 2 bytes, path 3 string*
Ticket: ticket 1 bytes
Location: uri 1 string
Endpoint: ticket 1 Ticket, location 2 Location*
Info: schema 1 bytes, flight_descriptor 2 Descriptor, endpoint 3 Endpoint*, total_records 4 int64,
  total_bytes 5 int64, ordered 6 bool
Data: flight_descriptor 1 Descriptor, data_header 2 bytes, app_metadata 3 bytes,
  data_body 1000 bytes
PutResult: app_metadata 1 bytes
CancelRequest: info 1 Info
CancelResult: status 1 int32
StringList: values 1 string*
OptionValue: string_value 1 string?, bool_value 2 bool?, int64_value 3 sfixed64?,
  double_value 4 double?, string_list_value 5 StringList
SetSessionOptionsRequest: session_options 1 <OptionValue>
OptionError: value 1 int32
SetSessionOptionsResult: errors 1 <OptionError>
GetSessionOptionsResult: session_options 1 <OptionValue>
CloseSessionResult: status 1 int32
"""
_SQL_MESSAGES = """
CommandGetSqlInfo: info 1 uint32*
CommandGetXdbcTypeInfo: data_type 1 int32?
CommandGetCatalogs:
CommandGetDbSchemas: catalog 1 string?, db_schema_filter_pattern 2 string?
CommandGetTables: catalog 1 string?, db_schema_filter_pattern 2 string?,
  table_name_filter_pattern 3 string?, table_types 4 string*, include_schema 5 bool
CommandGetTableTypes:
CommandGetPrimaryKeys: catalog 1 string?, db_schema 2 string?, table 3 string
CommandGetExportedKeys: catalog 1 string?, db_schema 2 string?, table 3 string
CommandGetImportedKeys: catalog 1 string?, db_schema 2 string?, table 3 string
CommandGetCrossReference: pk_catalog 1 string?, pk_db_schema 2 string?, pk_table 3 string,
  fk_catalog 4 string?, fk_db_schema 5 string?, fk_table 6 string
CommandStatementQuery: query 1 string, transaction_id 2 bytes?
CommandStatementUpdate: query 1 string, transaction_id 2 bytes?
CommandPreparedStatementQuery: prepared_statement_handle 1 bytes
CommandPreparedStatementUpdate: prepared_statement_handle 1 bytes
TicketStatementQuery: statement_handle 1 bytes
ActionCreatePreparedStatementRequest: query 1 string, transaction_id 2 bytes?
ActionCreatePreparedStatementResult: prepared_statement_handle 1 bytes, dataset_schema 2 bytes,
  parameter_schema 3 bytes, is_update 4 bool?
ActionClosePreparedStatementRequest: prepared_statement_handle 1 bytes
ActionCancelQueryRequest: info 1 bytes
ActionCancelQueryResult: result 1 int32
DoPutUpdateResult: record_count 1 int64
DoPutPreparedStatementResult: prepared_statement_handle 1 bytes?
"""


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.replace(",\n  ", ", ").strip().splitlines():
        name, _, fields = line.partition(":")
        yield name, fields.strip()


def _file(package: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    made = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in _lines(text):
        message = made.message_type.add(name=name)
        for field in filter(None, fields.split(", ")):
            _add_field(message, package, *field.split())
    return made


def _add_field(message: Any, package: str, name: str, number: str, kind: str) -> None:
    field = message.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if kind[-1] in "*>" else field.LABEL_OPTIONAL
    if kind.endswith("?"):
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if kind.startswith("<"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, "key", "1", "string")
        _add_field(entry, package, "value", "2", kind.strip("<>"))
        _refer(field, f"{package}.{message.name}.{entry.name}")
        return
    kind = kind.rstrip("*?")
    scalar = getattr(field, f"TYPE_{kind.upper()}", None)
    if scalar is None:
        _refer(field, f"{package}.{kind}")
    else:
        field.type = scalar


def _refer(field: Any, name: str) -> None:
    field.type, field.type_name = field.TYPE_MESSAGE, f".{name}"


def _classes() -> dict[str, Any]:
    pool, found = descriptor_pool.DescriptorPool(), {}
    for package, text in ((_FLIGHT, _FLIGHT_MESSAGES), (_SQL, _SQL_MESSAGES)):
        pool.Add(_file(package, text))
        for name, _ in _lines(text):
            described = pool.FindMessageTypeByName(f"{package}.{name}")
            found[name] = message_factory.GetMessageClass(described)
    return found


CLASSES = _classes()
"""The class of each message, by the message's name."""


def new(name: str, **fields: Any) -> Any:
    """Returns a new message."""
    return CLASSES[name](**fields)


def read(name: str, data: bytes) -> Any:
    """Parses a message of a given kind.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    try:
        return CLASSES[name].FromString(data)
    except DecodeError as error:
        raise SeamlineError(
            INVALID_REQUEST, f"not a valid Arrow Flight {name}", hint=_SPEAK
        ) from error


_SPEAK = "The client must speak Arrow Flight SQL."


def packed(name: str, **fields: Any) -> bytes:
    """Returns a serialized Flight SQL message, wrapped in an `Any`."""
    content = new(name, **fields).SerializeToString()
    made = any_pb2.Any(type_url=_TYPE_URL + name, value=content)
    return bytes(made.SerializeToString())


def unpacked(data: bytes) -> tuple[str, Any]:
    """Parses a wrapped message; returns its name, and its content, or None if it is unknown here.

    Raises:
        SeamlineError: INVALID_REQUEST for bytes that are not such a message.
    """
    try:
        found = any_pb2.Any.FromString(data)
    except DecodeError:
        found = any_pb2.Any()
    if not found.type_url.startswith(_TYPE_URL):
        raise SeamlineError(INVALID_REQUEST, "not a valid Arrow Flight SQL command", hint=_SPEAK)
    name = found.type_url.removeprefix(_TYPE_URL)
    return name, read(name, found.value) if name in CLASSES else None


def unpacked_as(name: str, data: bytes) -> Any:
    """Parses a wrapped message of a given kind, and returns its content.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    found, content = unpacked(data)
    if found != name:
        raise SeamlineError(INVALID_REQUEST, f"expected {name}, got {found[:100]}")
    return content

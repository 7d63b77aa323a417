"""Checks that catalogs and warehouses can be reached, listed, read and, if allowed, written to.

Whether a catalog can be written to is tested by writing: a namespace is created and dropped, and
a small file is written beside the tables, read, and removed. `--read-only` prevents that.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Iterator

from seamline.connectors.iceberg.errors import catalog_errors, storage_errors
from seamline.connectors.places import place_of
from seamline.connectors.protocols.catalogs import Catalog
from seamline.errors import SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.doctor.findings import Finding, Level, of_error, ok, skipped, wrong

_SCHEMAS_LISTED = 20
_TEXT = b"Written by `seamline doctor` to see whether it can; nobody needs it.\n"
_READ_ONLY = "Statements work; CREATE TABLE and tiering do not, until it may be written to."


def look(connections: Connections, name: str, *, writes: bool) -> Iterator[Finding]:
    """Checks a catalog and the storage of its tables.

    Args:
        connections: Catalogs.
        name: Its name in the configuration.
        writes: Whether to test by writing whether writing is allowed.
    """
    try:
        catalog = connections.cold(name)
        schemas = catalog.namespaces()
        first = _first_table(catalog, schemas)
    except SeamlineError as error:
        yield of_error(error)
        return
    listed = f"{len(schemas):,} schema{'' if len(schemas) == 1 else 's'}"
    yield ok(f"it answers, and lists {listed}{'' if first else ' without a table'}")
    location = None
    if first is not None:
        try:
            location = catalog.load(first).state.location
        except SeamlineError as error:
            yield of_error(error, Level.WARNING, f"table {'.'.join(first)}")
        else:
            yield ok(f"metadata of {'.'.join(first)} can be read in its storage")
    format_ = connections.format(name)
    if not format_.is_writable:
        yield skipped(f"whether it may be written to: {format_.title} tables are read-only")
    elif writes:
        yield _namespace(connections, name)
        yield _object(connections, name, location)
    else:
        yield skipped("whether it may be written to: --read-only")


def _first_table(catalog: Catalog, schemas: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    for schema in itertools.islice(schemas, _SCHEMAS_LISTED):
        for table in catalog.tables(schema):
            return table
    return None


def _namespace(connections: Connections, name: str) -> Finding:
    made = (f"seamline_doctor_{secrets.token_hex(4)}",)
    try:
        with catalog_errors(name):
            pyiceberg = connections.catalog(name).pyiceberg
            pyiceberg.create_namespace(made)
            pyiceberg.drop_namespace(made)
    except SeamlineError as error:
        finding = of_error(error, Level.WARNING, "it may not be written to")
        return Finding(finding.level, finding.text, _READ_ONLY, finding.code)
    return ok("it may be written to: a schema was created and dropped")


def _object(connections: Connections, name: str, table_location: str | None) -> Finding:
    """Writes, reads and removes a file in the place where tables are stored."""
    from pyiceberg.io import load_file_io

    warehouse = connections.config.catalogs[name].warehouse
    location = warehouse if place_of(warehouse) is not None else table_location
    if not location:
        return skipped("its warehouse: only the catalog knows where that is, and there is no table")
    path = f"{location.rstrip('/')}/_seamline_doctor_{secrets.token_hex(4)}"
    try:
        with storage_errors(f"warehouse {location}"):
            io = load_file_io(dict(connections.catalog(name).pyiceberg.properties), path)
            with io.new_output(path).create() as stream:
                stream.write(_TEXT)
            try:
                with io.new_input(path).open() as source:
                    read = source.read()
            finally:
                with contextlib.suppress(FileNotFoundError):
                    io.delete(path)
    except SeamlineError as error:
        return of_error(error, Level.WARNING)
    if read != _TEXT:
        return wrong(
            f"warehouse {location} returns other bytes than were written",
            "Look for something in between that rewrites or caches what is stored.",
        )
    return ok(f"warehouse {location}: a file was written, read and removed")

"""Clients of Flight SQL for tests: one that sends any bytes, and the driver of JDBC."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight

from seamline.connectors.jvm.jars import JarSet
from seamline.gateway.flight import messages

JDBC = JarSet(
    "flight-sql-jdbc", ("org.apache.arrow:flight-sql-jdbc-driver:18.3.0",), transitive=False
)
JAVA_OPTIONS = ("--add-opens=java.base/java.nio=ALL-UNNAMED",)
"""Options of the Java that loads the driver."""


@dataclasses.dataclass(frozen=True)
class RawFlight:
    """A client of Arrow Flight.

    Attributes:
        client: As pyarrow has it.
        headers: What each call carries.
    """

    client: Any
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def at(cls, url: str, **headers: str) -> RawFlight:
        """A client at an address, with headers; `_` in their names stands for `-`."""
        found = ((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items())
        return cls(pa.flight.connect(url), tuple(found))

    @property
    def options(self) -> Any:
        """What each call is made with."""
        return pa.flight.FlightCallOptions(headers=list(self.headers), timeout=60)

    def info(self, name: str, **fields: Any) -> Any:
        """What GetFlightInfo answers to a command."""
        return self.info_of(messages.packed(name, **fields))

    def info_of(self, command: bytes) -> Any:
        """What it answers to any bytes."""
        descriptor = pa.flight.FlightDescriptor.for_command(command)
        return self.client.get_flight_info(descriptor, self.options)

    def rows(self, info: Any) -> pa.Table:
        """The rows of what GetFlightInfo answered."""
        return self.rows_of(info.endpoints[0].ticket.ticket)

    def rows_of(self, ticket: bytes) -> pa.Table:
        """The rows of any ticket."""
        return self.client.do_get(pa.flight.Ticket(ticket), self.options).read_all()

    def query(self, sql: str) -> pa.Table:
        """The rows of a statement."""
        return self.rows(self.info("CommandStatementQuery", query=sql))

    def action(self, name: str, body: bytes = b"") -> list[bytes]:
        """What an action answers."""
        found = self.client.do_action(pa.flight.Action(name, body), self.options)
        return [each.body.to_pybytes() for each in found]

    def put(self, command: bytes, rows: pa.Table | None = None) -> bytes:
        """What DoPut answers."""
        rows = rows if rows is not None else pa.table({})
        descriptor = pa.flight.FlightDescriptor.for_command(command)
        writer, reader = self.client.do_put(descriptor, rows.schema, self.options)
        with writer:
            writer.write_table(rows)
            writer.done_writing()
            answer = reader.read()
        return answer.to_pybytes() if answer is not None else b""

    def prepare(self, sql: str) -> Any:
        """What preparing a statement answers."""
        body = messages.packed("ActionCreatePreparedStatementRequest", query=sql)
        (answer,) = self.action("CreatePreparedStatement", body)
        return messages.unpacked_as("ActionCreatePreparedStatementResult", answer)


def bound(client: RawFlight, handle: bytes, values: Sequence[Any]) -> Any:
    """Runs a prepared query with values."""
    rows = pa.table({str(place): [value] for place, value in enumerate(values)})
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    client.put(command, rows)
    return client.rows(client.info_of(command))


def connected(jvm: Any, url: str, **options: str) -> Any:
    """A connection of the JDBC driver.

    Args:
        jvm: Java, with the driver.
        url: The address of a gateway's Flight SQL.
        options: Properties of the driver.
    """
    properties = jvm.java.util.Properties()
    for name, value in options.items():
        properties.setProperty(name, value)
    address = f"jdbc:arrow-flight-sql://{urlsplit(url).netloc}/"
    return jvm.org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver().connect(address, properties)

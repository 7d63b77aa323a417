"""PyIceberg's catalog in a Hive metastore, for several threads, and with a limit on its time.

PyIceberg shares one connection between all threads, waits for its answers for ever, and tries only
the first of several addresses.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client
from pyiceberg.catalog import LOCATION, WAREHOUSE_LOCATION, hive
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.utils.properties import property_as_bool
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import (
    TBufferedTransport,
    TSaslClientTransport,
    TTransportBase,
    TTransportException,
)

from seamline.connectors.iceberg import pyiceberg_internals

_PORT = 9083
logging.getLogger("thrift").addHandler(logging.NullHandler())  # it raises what it logs


class PatientHiveCatalog(hive.HiveCatalog):
    """PyIceberg's Hive catalog, with a connection for each call and a limit on its time."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._client: Any = MetastoreConnections(properties)

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Creates a database, in the warehouse as Iceberg's Java library does.

        PyIceberg leaves its location to the metastore, whose warehouse may be another.
        """
        warehouse = self.properties.get(WAREHOUSE_LOCATION, "").rstrip("/")
        if warehouse:
            database = self.identifier_to_database(namespace)
            properties = {LOCATION: f"{warehouse}/{database}.db", **properties}
        super().create_namespace(namespace, properties)


class MetastoreConnections:
    """Opens a connection for each use, to the first address that accepts one. Safe to share.

    Args:
        properties: The catalog's: its addresses and how to log in.
    """

    def __init__(self, properties: dict[str, str]) -> None:
        self._addresses = [urlsplit(one.strip()) for one in properties["uri"].split(",")]
        user, _, groups = properties.get("ugi", "").partition(":")
        self._login = (user, groups.split(":")) if user else None
        self._service = (
            properties.get(hive.HIVE_KERBEROS_SERVICE_NAME, hive.HIVE_KERBEROS_SERVICE_NAME_DEFAULT)
            if property_as_bool(properties, hive.HIVE_KERBEROS_AUTH, default=False)
            else None
        )
        self._open = _Open()

    def __enter__(self) -> Client:
        """Opens a connection.

        Raises:
            TTransportException: when no address accepts one.
        """
        transport = self._connect()
        client = Client(TBinaryProtocol(transport))
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(transport.close)
            if self._login is not None:
                client.set_ugi(*self._login)
            on_failure.pop_all()
        self._open.transports.append(transport)
        return client

    def __exit__(self, *_: object) -> None:
        self._open.transports.pop().close()

    def _connect(self) -> TTransportBase:
        failures: list[TTransportException] = []
        for address in self._addresses:
            host = address.hostname or ""
            transport: TTransportBase = _Socket(host, address.port or _PORT)
            if self._service is None:
                transport = TBufferedTransport(transport)
            else:
                transport = TSaslClientTransport(transport, host=host, service=self._service)
            try:
                transport.open()
            except TTransportException as error:
                failures.append(error)
            else:
                return transport
        raise failures[-1]


class _Open(threading.local):
    """The connections that this thread has open, the innermost last."""

    def __init__(self) -> None:
        self.transports: list[TTransportBase] = []


class _Socket(TSocket):
    """A connection on which each answer arrives whole within a time, or not at all."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._answer_by = 0.0

    def open(self) -> None:
        """Connects."""
        self.setTimeout(pyiceberg_internals.CONNECT_S * 1000)
        super().open()

    def write(self, buff: bytes) -> None:
        """Sends a request."""
        self._answer_by = time.monotonic() + pyiceberg_internals.ANSWER_S
        self.handle.settimeout(pyiceberg_internals.ANSWER_S)
        super().write(buff)

    def read(self, sz: int) -> bytes:
        """Receives a part of an answer.

        Raises:
            TTransportException: the time is up.
        """
        left_s = self._answer_by - time.monotonic()
        if left_s > 0:
            self.handle.settimeout(left_s)
            return bytes(super().read(sz))
        seconds = pyiceberg_internals.ANSWER_S
        raise TTransportException(
            TTransportException.TIMED_OUT, f"no whole answer within {seconds:g} s"
        )

"""A real Hive metastore for tests, from the jars that come with Spark; its database is in memory.

Its parts are put together here because the program they come with listens on every interface.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from seamline.connectors.config import CatalogConfig
from support.java_library import java_library


def hive_config(address: str, directory: pathlib.Path) -> CatalogConfig:
    """The metastore in a configuration, with the tables under `directory`/warehouse."""
    return CatalogConfig(
        name="lake",
        type="hive",
        uri=address,
        warehouse=(directory / "warehouse").as_uri(),
        properties={"hive.hive2-compatible": "true"},
    )


@contextlib.contextmanager
def hive_metastore(directory: pathlib.Path) -> Iterator[str]:
    """A running metastore.

    Yields:
        Its address.
    """
    log = f"-Dderby.stream.error.file={directory / 'derby.log'}"
    with java_library(options=[log]) as jvm:
        socket = jvm.org.apache.thrift.transport.TServerSocket(
            jvm.java.net.InetSocketAddress("127.0.0.1", 0)
        )
        server = _server(jvm, socket, directory)
        serving = threading.Thread(target=server.serve, daemon=True)
        serving.start()
        try:
            yield f"thrift://127.0.0.1:{socket.getServerSocket().getLocalPort()}"
        finally:
            server.stop()
            serving.join(60)


def _server(jvm: Any, socket: Any, directory: pathlib.Path) -> Any:
    hive = jvm.org.apache.hadoop.hive
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{uuid.uuid4().hex};create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": (directory / "warehouse").as_uri(),
    }
    conf = hive.conf.HiveConf()
    for name, value in settings.items():
        conf.set(name, value)
    hive.metastore.txn.TxnDbUtil.prepDb(conf)  # the tables for locks
    handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler("metastore", conf, True)
    pool = jvm.org.apache.thrift.server.TThreadPoolServer
    processor = hive.metastore.api.ThriftHiveMetastore.Processor(handler)
    return pool(pool.Args(socket).processor(processor))

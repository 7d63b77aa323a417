"""A REST catalog of somebody else's for tests: Iceberg's own server, with tables and views.

It is what many run in production behind another name. Its parts are put together here, in a Java
process of its own, because the program they come with listens on every interface.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaGateway

from seamline.connectors.config import CatalogConfig
from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch
from seamline.connectors.jvm.java import find_java

JARS = JarSet("iceberg-rest", ("org.apache.iceberg:iceberg-open-api:1.10.0",), transitive=False)


def config_of(url: str, directory: pathlib.Path) -> CatalogConfig:
    """That catalog in a configuration; that its tables are on this machine has to be said."""
    warehouse = (directory / "warehouse").as_uri()
    return CatalogConfig(name="lake", type="rest", uri=url, locations=(warehouse,))


@contextlib.contextmanager
def rest_catalog(directory: pathlib.Path) -> Iterator[str]:
    """A running catalog, its tables under `directory`/warehouse.

    Yields:
        Its address.
    """
    jars = fetch(JARS, cache_directory(os.environ), print)
    gateway = JavaGateway.launch_gateway(
        classpath=str(jars / JARS.file_names[0]),
        die_on_exit=True,
        java_path=str(find_java(os.environ).path),
    )
    try:
        server = _server(gateway.jvm, directory)
        server.start()
        try:
            yield f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"
        finally:
            server.stop()
    finally:
        gateway.shutdown()


def _server(jvm: Any, directory: pathlib.Path) -> Any:
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{directory}/rest.db",
        "jdbc.schema-version": "V1",
        "warehouse": (directory / "warehouse").as_uri(),
    }
    iceberg, jetty = jvm.org.apache.iceberg, jvm.org.eclipse.jetty
    known = jvm.java.util.HashMap()
    for name, value in properties.items():
        known.put(name, value)
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    backend = iceberg.CatalogUtil.buildIcebergCatalog("backend", known, configuration)
    servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(backend))
    context = jetty.servlet.ServletContextHandler()
    context.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    return server

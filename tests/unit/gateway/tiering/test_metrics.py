"""Goal: a tierer's metrics are served where they were asked for, and nowhere else.

Method: a real server on an address of loopback other than 127.0.0.1, asked at both.
"""

from __future__ import annotations

import pathlib

import pytest
import urllib3

from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import load
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.backlog import Backlog
from seamline.gateway.tiering.progress import Progress
from seamline.gateway.tiering.server import serve_metrics
from seamline.gateway.tiering.tables import SparkTables

_CONFIG = """
catalogs: {lake: {type: sql, uri: "sqlite://", warehouse: "file:///nowhere"}}
clusters: {main: {bootstrap_servers: "127.0.0.1:1"}}
"""


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_metrics_are_served_on_the_address_given(scratch: pathlib.Path, host: str) -> None:
    file = scratch / "seamline.yaml"
    file.write_text(_CONFIG)
    connections = Connections(load(file, environment={}).config)
    application = TieringApplication(SparkTables(connections, None), records_max=1)
    application.progress["lake.default.bids"] = Progress(
        "lake.default.bids", steps=3, backlog=Backlog(7, None, 5, 0.0)
    )
    server = serve_metrics(application, host, 0)
    try:
        port = server.server_address[1]
        address = f"[{host}]" if ":" in host else host
        answer = urllib3.request("GET", f"http://{address}:{port}/metrics", retries=False)
        assert 'seamline_tier_lag_offsets{table="lake.default.bids"} 7' in answer.data.decode()
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            urllib3.request("GET", f"http://127.0.0.1:{port}/metrics", retries=False)
    finally:
        server.shutdown()
        server.server_close()
        connections.close()

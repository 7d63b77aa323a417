"""Goal: what the catalog behind ours vends reaches readers that ask, and nothing else does.

Method: a REST catalog that answers what it is told to, on loopback, under the real client and the
gateway's own catalog of it. Its table is of another store, so nothing reads its files.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

import pytest
from support import offline
from support.gateway import Gateway
from support.handmade import Handmade, column
from support.one_table import answering

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.pyiceberg_internals import vended_credentials
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.gateway.iceberg_rest.storage_access import passed_on

LOCATION = "s3://lake/warehouse/t"
KEYS = {"s3.access-key-id": "for-a-while", "s3.secret-access-key": "secret"}
EXPIRING = {**KEYS, "s3.session-token": "an hour", "s3.session-token-expires-at-ms": "1"}
OF_THE_CATALOG = {"token": "the gateway's", "uri": "http://127.0.0.1:1", "credential": "a:b"}
REFRESHING = {
    f"{store}.refresh-credentials-endpoint": "v1/of-the-gateway"
    for store in ("client", "gcs.oauth2", "adls")
}
SIGNING = {"s3.remote-signing-enabled": "true", "s3.signer.uri": "http://127.0.0.1:1"}
STORE = {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key-id": "gateway"}
ADDRESS = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.region": "us-east-1",
    "client.region": "us-east-1",
}


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ({"config": {}}, []),
        ({"config": KEYS}, []),
        (
            {"config": {**EXPIRING, **OF_THE_CATALOG, **SIGNING, **REFRESHING}},
            [(f"{LOCATION}/", EXPIRING)],
        ),
        (
            {
                "config": OF_THE_CATALOG,
                "storage-credentials": [
                    {"prefix": "s3://lake/", "config": EXPIRING},
                    {"prefix": "s3://other/", "config": KEYS},
                ],
            },
            [("s3://lake/", EXPIRING)],
        ),
    ],
    ids=["none", "keys that last", "in the config", "by prefix"],
)
def test_what_is_passed_on(
    tmp_path: pathlib.Path, answer: dict[str, Any], given: list[tuple[str, dict[str, str]]]
) -> None:
    made = Handmade(tmp_path, [[column(1, "id", "long")]]).write(())
    metadata = json.loads(pathlib.Path(made.removeprefix("file://")).read_text())
    metadata["location"] = LOCATION
    table = {"metadata-location": f"{LOCATION}/metadata/1.json", "metadata": metadata, **answer}
    with answering(table) as url:
        config = CatalogConfig(
            name="lake", type="rest", uri=url, warehouse="s3://lake/warehouse", properties=STORE
        )
        loaded = IcebergCatalog(config).load(("default", "t"))
    found = passed_on(config, vended_credentials(loaded.iceberg))
    assert found == [{"prefix": prefix, "config": {**ADDRESS, **keys}} for prefix, keys in given]


def test_a_view_comes_without_what_its_catalog_gave_the_gateway(tmp_path: pathlib.Path) -> None:
    view = {"metadata-location": f"{LOCATION}/v.json", "metadata": {"view-uuid": "x"}}
    config = offline.config(tmp_path)
    views = [f"GET /v1/{{prefix}}/namespaces/{{namespace}}/views{one}" for one in ("", "/{view}")]
    loaded = {**view, "config": {**KEYS, **OF_THE_CATALOG}}
    with answering(loaded, endpoints=views) as url:
        lake = CatalogConfig(name="lake", type="rest", uri=url)
        gateway = Gateway(config.model_copy(update={"catalogs": {"lake": lake}}))
        with contextlib.closing(gateway):
            path = "/iceberg/v1/lake/namespaces/shop/views/v"
            answer = gateway.app.test_client().get(path, base_url="http://127.0.0.1")
    assert answer.json == view

"""Goal: what the drivers of catalogs raise is named, or says what to install.

Method: a type whose driver the tests do not install, and one whose driver cannot be imported; a
server that refuses a login as Amazon's do.
"""

from __future__ import annotations

import json
import sys

import pytest
from support.doors import Door

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.errors import CATALOG_ACCESS_DENIED, INVALID_CONFIG, SeamlineError

GLUE = {"glue.access-key-id": "key", "glue.secret-access-key": "secret", "glue.region": "us-east-1"}


def failure(type_: str, uri: str = "", **properties: str) -> SeamlineError:
    config = CatalogConfig(
        name="lake", type=type_, uri=uri, warehouse="file:///lake", properties=properties
    )
    with pytest.raises(SeamlineError) as caught:
        IcebergCatalog(config).tables(("default",))
    return caught.value


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hive_metastore.ThriftHiveMetastore", None)
    monkeypatch.delitem(sys.modules, "seamline.connectors.iceberg.hive", raising=False)
    for type_, uri in (("hive", "thrift://127.0.0.1:1"), ("bigquery", "")):
        error = failure(type_, uri)
        assert error.code is INVALID_CONFIG
        assert error.hint == f"pip install 'pyiceberg[{type_}]'"


def test_a_number_of_retries_that_is_none_is_named() -> None:
    error = failure("glue", **GLUE, **{"glue.max-retries": "many"})
    assert error.code is INVALID_CONFIG
    assert "glue.max-retries is 'many'" in error.message


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ExpiredTokenException", "UnrecognizedClientException"]
)
def test_a_refused_login_is_named(code: str) -> None:
    body = json.dumps({"__type": code, "Message": "no"}).encode()
    with Door(lambda _method, _path: (400, body)) as door:
        error = failure("glue", **GLUE, **{"glue.endpoint": door.url})
    assert error.code is CATALOG_ACCESS_DENIED
    assert code in error.message

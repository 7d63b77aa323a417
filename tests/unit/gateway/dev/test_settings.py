"""Goal: the written configuration loads, and later only the broker's port in it changes.

Method: texts before and after; the gateway's own loader reads the result.
"""

from __future__ import annotations

import pathlib

import pytest
from sqlalchemy.engine import make_url

from seamline.connectors.config import CatalogConfig
from seamline.connectors.spark.settings import catalog_conf, jdbc_uri
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config.load import load
from seamline.gateway.dev.local.settings import catalog_config, new_text, updated_text

EDITED = """\
# mine
clusters:
  default: {bootstrap_servers: 127.0.0.1:19092, properties: {client.id: me}}  # local
  other:
    bootstrap_servers: 127.0.0.1:19092
limits: {duckdb_threads: 2}
"""


@pytest.mark.parametrize("name", ["plain", "with space", 'it\'s: "odd" ü'])
def test_new_configuration_loads(tmp_path: pathlib.Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    file = directory / "seamline.yaml"
    file.write_text(new_text(directory, "127.0.0.1:19092"), encoding="utf-8")
    config = load(file, environment={}).config
    assert config.catalogs["lake"] == catalog_config(directory)
    assert config.clusters["kafka"].bootstrap_servers == "127.0.0.1:19092"
    assert (config.default_catalog, config.default_schema) == ("lake", "default")


def test_one_address_serves_sqlalchemy_and_jdbc() -> None:
    uri = catalog_config(pathlib.Path("/state")).uri
    assert make_url(uri).database == "/state/catalog.db"
    assert int(str(make_url(uri).query["timeout"])) == 30
    assert jdbc_uri(uri).startswith("jdbc:sqlite:/state/catalog.db?busy_timeout=")


def test_a_catalog_reached_by_rest_is_the_same_in_spark() -> None:
    properties = {
        "credential": "id:secret",
        "scope": "PRINCIPAL_ROLE:ALL",
        "header.X-Realm": "main",
        "s3.region": "eu-west-1",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
    catalog = CatalogConfig(
        name="lake",
        type="rest",
        uri="https://catalog.example",
        warehouse="main",
        properties=properties,
    )
    prefix = "spark.sql.catalog.lake"
    conf = catalog_conf(catalog)
    assert conf.pop(prefix) == "org.apache.iceberg.spark.SparkCatalog"
    assert {key.removeprefix(f"{prefix}."): value for key, value in conf.items()} == {
        "type": "rest",
        "uri": "https://catalog.example",
        "warehouse": "main",
        "cache-enabled": "false",
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        "credential": "id:secret",
        "scope": "PRINCIPAL_ROLE:ALL",
        "header.X-Realm": "main",
        "s3.region": "eu-west-1",
        "client.region": "eu-west-1",
    }
    login = {
        "type": "oidc",
        "url": "https://idp.example/token",
        "client_id": "id",
        "client_secret": "a:secret",
        "scope": "all",
    }
    plain = {"name": "lake", "type": "rest", "uri": "https://catalog.example"}
    conf = catalog_conf(CatalogConfig.model_validate({**plain, "login": login}))
    assert conf[f"{prefix}.credential"] == "id:a:secret"
    assert conf[f"{prefix}.oauth2-server-uri"] == "https://idp.example/token"
    assert conf[f"{prefix}.token-exchange-enabled"] == "false"
    assert conf[f"{prefix}.scope"] == "all"
    assert f"{prefix}.audience" not in conf
    google = {**plain, "login": {"type": "google"}}
    with pytest.raises(SeamlineError, match="how Spark logs in to catalog lake"):
        catalog_conf(CatalogConfig.model_validate(google))
    own = CatalogConfig.model_validate({**google, "spark": {"rest.auth.type": "google"}})
    assert catalog_conf(own)[f"{prefix}.rest.auth.type"] == "google"
    nameless = CatalogConfig(name="lake", type="rest", uri="https://catalog.example")
    assert f"{prefix}.warehouse" not in catalog_conf(nameless)


@pytest.mark.parametrize("cluster", ["kafka", "default"])
def test_port_is_put_right_and_edits_are_kept(cluster: str) -> None:
    text = EDITED.replace("default", cluster)
    updated = updated_text(text, "127.0.0.1:20000")
    assert updated == text.replace("127.0.0.1:19092", '"127.0.0.1:20000"', 1)
    assert updated_text(updated, "127.0.0.1:20000") == updated


@pytest.mark.parametrize(
    "text",
    [
        "clusters: {default: {bootstrap_servers: 'kafka.example:9092'}}",
        "clusters: {default: {bootstrap_servers: '127.0.0.1:1,127.0.0.1:2'}}",
        "clusters: {production: {bootstrap_servers: '127.0.0.1:1'}}",
        "clusters: [1]",
        "",
    ],
)
def test_a_cluster_that_is_not_the_local_one_is_left_alone(text: str) -> None:
    assert updated_text(text, "127.0.0.1:20000") == text


def test_what_is_not_yaml_is_named() -> None:
    with pytest.raises(SeamlineError, match=r"seamline.yaml is not YAML: .*line 1") as caught:
        updated_text("clusters: {", "127.0.0.1:20000")
    assert caught.value.code is INVALID_CONFIG

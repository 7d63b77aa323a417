"""Goal: each value comes from where it should, wrong ones are named, and no secret is ever printed.

Method: files, variables and flags in every order of precedence; values that hold secrets in their
names, their addresses and elsewhere.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest
from pyiceberg.catalog import CatalogType
from support import offline

from seamline.connectors.table_formats import by_catalog_type
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config.file_locations import FILE_VARIABLE, find_file
from seamline.gateway.config.load import Loaded, describe, load


def loaded(
    folder: pathlib.Path,
    more: str = "",
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    return load(offline.write(folder, more), environment=environment or {}, flags=flags or {})


def refused(folder: pathlib.Path, more: str = "", **flags: str) -> str:
    with pytest.raises(SeamlineError) as caught:
        loaded(folder, more, flags={k.replace("__", "."): v for k, v in flags.items()})
    assert caught.value.code is INVALID_CONFIG
    return caught.value.message


# --- Where values come from ----------------------------------------------------------------------


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    tmp_path: pathlib.Path,
) -> None:
    file, variable, flag = "http: {port: 1}\n", {"SEAMLINE_HTTP__PORT": "2"}, {"http.port": "3"}
    steps = [
        (loaded(tmp_path), 8474, "default"),
        (loaded(tmp_path, file), 1, str(tmp_path / "seamline.yaml")),
        (loaded(tmp_path, file, variable), 2, "SEAMLINE_HTTP__PORT"),
        (loaded(tmp_path, file, variable, flag), 3, "flag"),
    ]
    for found, port, source in steps:
        assert found.config.http.port == port
        assert ("http.port", str(port), source) in describe(found)


def test_variables_that_are_no_settings_are_left_alone(tmp_path: pathlib.Path) -> None:
    others = {"SEAMLINE_URL": "x", "SEAMLINE_TOKEN": "x", "SEAMLINE_HOME": "x", "HOME": "x"}
    assert loaded(tmp_path, environment=others).config == loaded(tmp_path).config


def test_the_only_catalog_and_cluster_are_the_default_ones(tmp_path: pathlib.Path) -> None:
    config = loaded(tmp_path).config
    assert (config.default_catalog, config.default_cluster) == ("lake", "default")
    assert config.catalogs["lake"].name == "lake"


def test_the_file_named_wins_and_must_be_there(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path)
    assert find_file(str(file), {}) == file
    assert find_file(None, {FILE_VARIABLE: str(file)}) == file
    assert find_file(None, {"SEAMLINE_HOME": str(tmp_path)}) == file
    with pytest.raises(SeamlineError, match="there is no configuration file"):
        find_file(str(tmp_path / "other.yaml"), {})
    with pytest.raises(SeamlineError, match="there is no configuration file"):
        load(None)


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("1_000", 1000), ("64KiB", 1 << 16), ("2 GiB", 2 << 30)]
)
def test_numbers_have_units(tmp_path: pathlib.Path, text: str, number: int) -> None:
    found = loaded(tmp_path, flags={"limits.result_bytes": text})
    assert found.config.limits.result_bytes == number


# --- What is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("htpp: {}\n", "htpp is not a setting"),
        ("http: {prot: 1}\n", "http.prot is not a setting; known here: host, port"),
        ("http: {port: x}\n", "http.port 'x' is not a whole number"),
        ("http: {port: 1.5}\n", "http.port '1.5' is not a whole number"),
        ("http: {port: true}\n", "http.port 'true' is not a whole number"),
        ("http: {port: 80000}\n", "http.port '80000' should be less than or equal to 65535"),
        ("http: {threads: 0}\n", "http.threads '0' should be greater than 0"),
        ("http: {threads: 9999}\n", "http.threads '9999' should be less than or equal to 4096"),
        ("limits: {result_bytes: 9999999999GiB}\n", "limits.result_bytes should be less than"),
        ("state_directory: ''\n", "state_directory should have at least 1 character"),
        ("http: 1\n", "http '1' must hold keys and values"),
        ("spark: {packages: maybe}\n", "spark.packages 'maybe' is not true or false"),
        ("auth: {tokens: x}\n", "auth.tokens must be a list"),
        ("auth: {tokens: [{name: a}]}\n", "auth.tokens.0.sha256 is missing"),
        ("auth: {tokens: [{name: a, sha256: plain}]}\n", "auth.tokens.0.sha256 should match"),
        ("catalogs: {lake: {type: rest}}\n", "catalogs.lake.uri is missing; type rest needs it"),
        (
            "catalogs: {lake: {type: sql, uri: 'sqlite:///x'}}\n",
            "catalogs.lake.warehouse is missing; type sql needs it",
        ),
        (
            "catalogs: {lake: {type: sqll, uri: u, warehouse: w}}\n",
            "catalogs.lake.type 'sqll' is not a type of catalog; known here: sql, rest, hive, ",
        ),
        ("default_catalog: nope\n", "default_catalog 'nope' is not under catalogs"),
        ("default_cluster: nope\n", "default_cluster 'nope' is not under clusters"),
        ("default_schema: [a]\n", "default_schema must be a string"),
        ("- a\n", "is not YAML"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: pathlib.Path, more: str, message: str) -> None:
    assert message in refused(tmp_path, more)


def test_a_flag_into_a_value_is_named(tmp_path: pathlib.Path) -> None:
    assert "http is a value, not a group" in refused(tmp_path, "http: 1\n", http__port="1")


@pytest.mark.parametrize("name", ["lake", "Lake"])
def test_a_catalog_and_a_cluster_cannot_share_a_name(tmp_path: pathlib.Path, name: str) -> None:
    flags = {f"clusters__{name}__bootstrap_servers": "127.0.0.1:1"}
    assert f"clusters.{name} is also the name of a catalog" in refused(tmp_path, **flags)


# --- Secrets -------------------------------------------------------------------------------------

SECRETS = """
tokens: {secret: a rather long SECRET}
catalogs:
  lake:
    type: sql
    uri: postgresql+psycopg2://gateway:SECRET@127.0.0.1:5432/lake
    warehouse: file:///warehouse
    properties:
      s3.secret-access-key: SECRET
      credential: client:SECRET
      adls.connection-string: AccountKey=SECRET
      adls.sas: https://127.0.0.1/c?sv=1&sig=SECRET
    spark:
      jdbc.password: SECRET
clusters:
  default:
    bootstrap_servers: 127.0.0.1:9092
    properties: {sasl.username: me, sasl.password: SECRET, ssl.key.pem: SECRET}
    java_properties:
      sasl.jaas.config: org.apache.Module required password="SECRET";
      ssl.keystore.key: SECRET
auth: {tokens: [{name: ann, sha256: DIGEST}]}
spark:
  remote: sc://127.0.0.1:15002/;use_ssl=true;token=SECRET
  conf:
    spark.hadoop.fs.s3a.secret.key: SECRET
    spark.sql.shuffle.partitions: "8"
    spark.some.url: https://127.0.0.1/x?a=1&password=SECRET&b=2
"""
SHOWN = {
    "catalogs.lake.uri": "postgresql+psycopg2://gateway:******@127.0.0.1:5432/lake",
    "catalogs.lake.warehouse": "file:///warehouse",
    "catalogs.lake.properties.adls.sas": "https://127.0.0.1/c?sv=1&sig=******",
    "clusters.default.bootstrap_servers": "127.0.0.1:9092",
    "clusters.default.properties.sasl.username": "me",
    "auth.tokens.0.name": "ann",
    "spark.remote": "sc://127.0.0.1:15002/;use_ssl=true;token=******",
    "spark.conf.spark.sql.shuffle.partitions": "8",
    "spark.conf.spark.some.url": "https://127.0.0.1/x?a=1&password=******&b=2",
    "tokens.secret": "******",
    "tokens.age_seconds_max": "604800",
    "http.port": "8474",
}


def test_no_secret_is_printed_and_everything_else_is(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seamline.yaml"
    file.write_text(SECRETS.replace("DIGEST", "5ec2e7" * 10 + "5ec2"), encoding="utf-8")
    found = {path: value for path, value, _ in describe(load(file, environment={}))}
    assert not [path for path, value in found.items() if "SECRET" in value or "5ec2" in value]
    assert {path: found[path] for path in SHOWN} == SHOWN


def test_what_is_taken_from_elsewhere_is_secret_whatever_it_is_called(
    tmp_path: pathlib.Path,
) -> None:
    found = loaded(tmp_path, "default_schema: ${env:SCHEMA}\n", {"SCHEMA": "hidden"})
    assert found.config.default_schema == "hidden"
    (shown,) = [entry for entry in describe(found) if entry[0] == "default_schema"]
    assert shown[1] == "******"
    assert shown[2].endswith("${env:SCHEMA}")


def test_a_catalog_has_one_of_pyicebergs_types_or_our_own() -> None:
    assert set(by_catalog_type()) == {"delta", *(known.value for known in CatalogType)}

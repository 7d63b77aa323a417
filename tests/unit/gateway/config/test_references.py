"""Goal: the configuration file takes secrets from elsewhere, and they are never shown.

Method: files as an operator would write them are loaded with an environment of their own. What is
not there must be named with the path of the value; what was taken must print as `******`, whatever
the value is called.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config.load import Loaded, describe, load

_FILE = """
catalogs:
  lake:
    type: sql
    uri: postgresql://gateway:${env:CATALOG_PASSWORD}@catalog/db
    warehouse: s3://lake/warehouse
clusters:
  main:
    bootstrap_servers: kafka:9092
    properties:
      sasl.password: ${file:SCRATCH/kafka-password}
auth:
  tokens:
    - name: ada
      sha256: ${env:ADA_SHA256}
limits:
  statement_seconds_max: ${env:SECONDS}
"""
_ENVIRONMENT = {"CATALOG_PASSWORD": "pw-one", "ADA_SHA256": "ab12" * 16, "SECONDS": "77"}


def _load(
    scratch: pathlib.Path, environment: Mapping[str, str], flags: Mapping[str, str] | None = None
) -> Loaded:
    file = scratch / "seamline.yaml"
    file.write_text(_FILE.replace("SCRATCH", str(scratch)))
    return load(file, environment=environment, flags=flags)


@pytest.fixture
def password_file(scratch: pathlib.Path) -> pathlib.Path:
    file = scratch / "kafka-password"
    file.write_text("pw-two\n")
    return file


def test_values_come_from_where_the_file_says(
    scratch: pathlib.Path, password_file: pathlib.Path
) -> None:
    config = _load(scratch, _ENVIRONMENT).config
    assert config.catalogs["lake"].uri == "postgresql://gateway:pw-one@catalog/db"
    assert config.clusters["main"].properties == {"sasl.password": "pw-two"}
    assert config.auth.tokens[0].sha256 == "ab12" * 16
    assert config.limits.statement_seconds_max == 77


def _shown(loaded: Loaded) -> dict[str, tuple[str, str]]:
    return {path: (value, source) for path, value, source in describe(loaded)}


def test_what_was_taken_is_never_shown(scratch: pathlib.Path, password_file: pathlib.Path) -> None:
    shown = _shown(_load(scratch, _ENVIRONMENT))
    assert shown["catalogs.lake.uri"][0] == "******"
    assert shown["catalogs.lake.uri"][1].endswith("seamline.yaml, ${env:CATALOG_PASSWORD}")
    assert shown["auth.tokens.0.sha256"][1].endswith("${env:ADA_SHA256}")
    assert shown["auth.tokens.0.name"][0] == "ada"
    text = str(shown)
    assert not any(secret in text for secret in ("pw-one", "pw-two", "ab12"))


def test_a_variable_or_a_flag_in_its_place_is_shown_as_such(
    scratch: pathlib.Path, password_file: pathlib.Path
) -> None:
    environment = {**_ENVIRONMENT, "SEAMLINE_LIMITS__STATEMENT_SECONDS_MAX": "5"}
    shown = _shown(_load(scratch, environment, {"catalogs.lake.uri": "sqlite:///here.db"}))
    assert shown["limits.statement_seconds_max"] == ("5", "SEAMLINE_LIMITS__STATEMENT_SECONDS_MAX")
    assert shown["catalogs.lake.uri"] == ("sqlite:///here.db", "flag")


def test_a_variable_that_is_not_set_is_named(
    scratch: pathlib.Path, password_file: pathlib.Path
) -> None:
    with pytest.raises(SeamlineError) as raised:
        _load(scratch, {"CATALOG_PASSWORD": "x", "SECONDS": "7"})
    assert raised.value.code is INVALID_CONFIG
    assert "auth.tokens.0.sha256" in raised.value.message
    assert "'ADA_SHA256'" in raised.value.message


def test_a_file_that_is_not_there_is_named(scratch: pathlib.Path) -> None:
    with pytest.raises(SeamlineError) as raised:
        _load(scratch, _ENVIRONMENT)
    assert raised.value.code is INVALID_CONFIG
    assert "clusters.main.properties.sasl.password" in raised.value.message
    assert "kafka-password" in raised.value.message

"""Goal: a Spark that is started here has the jars it needs, whatever else it is told to fetch.

Method: what is configured to be fetched is added to what the project needs; of one jar in two
versions the configured one is taken.
"""

from __future__ import annotations

import pathlib

import pytest
from support import offline

from seamline.connectors.jvm import jars
from seamline.gateway.app.spark import settings

NEEDED = jars.spark_packages()
DRIVER = "org.postgresql:postgresql:42.7.7"
OTHER = NEEDED[0].rpartition(":")[0] + ":0.0.1"


@pytest.mark.parametrize(
    ("configured", "fetched"),
    [
        ("", [*NEEDED]),
        (DRIVER, [DRIVER, *NEEDED]),
        (f" {DRIVER} , {OTHER}", [DRIVER, OTHER, *NEEDED[1:]]),
    ],
)
def test_packages_are_added_to_those_that_are_needed(
    tmp_path: pathlib.Path, configured: str, fetched: list[str]
) -> None:
    conf = f'{{spark.jars.packages: "{configured}"}}' if configured else "{}"
    config = offline.load_config(tmp_path, f"spark: {{packages: true, conf: {conf}}}\n")
    assert settings(config).conf["spark.jars.packages"].split(",") == fetched

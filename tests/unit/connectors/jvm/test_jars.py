"""Goal: the cache is where the user expects it, and no set of jars is taken for another.

Method: pure values.
"""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from seamline.connectors.jvm.jars import KAFKA, SPARK, JarSet, cache_directory

HOME_CACHE = pathlib.Path.home() / ".cache" / "seamline" / "jars"


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({}, HOME_CACHE),
        ({"XDG_CACHE_HOME": "/cache"}, pathlib.Path("/cache/seamline/jars")),
        ({"XDG_CACHE_HOME": "relative"}, HOME_CACHE),
        ({"XDG_CACHE_HOME": "/cache", "SEAMLINE_JARS": "/jars"}, pathlib.Path("/jars")),
        ({"SEAMLINE_JARS": "jars"}, pathlib.Path.cwd() / "jars"),
    ],
)
def test_cache_directory(environment: dict[str, str], directory: pathlib.Path) -> None:
    assert cache_directory(environment) == directory


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(KAFKA, coordinates=(*KAFKA.coordinates, "a:b:1")),
        dataclasses.replace(KAFKA, transitive=False),
        SPARK,
    ],
)
def test_a_different_set_has_a_different_directory(other: JarSet) -> None:
    assert other.directory_name != KAFKA.directory_name


def test_file_names_are_those_that_are_retrieved() -> None:
    jars = JarSet("x", ("org.example:tool_2.13:1.0", "org.example:lib:2"), transitive=False)
    assert jars.file_names == ("tool_2.13-1.0.jar", "lib-2.jar")


def test_spark_gets_only_what_its_wheel_lacks() -> None:
    assert not SPARK.transitive
    assert len(SPARK.coordinates) == 6

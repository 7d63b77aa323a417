"""Goal: the cache is where the user expects it, and no set of jars is taken for another.

Method: pure values.
"""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from seamline.connectors.jvm.jars import (
    KAFKA,
    PINNED,
    SPARK,
    JarSet,
    cache_directory,
    check,
    checksums,
    sha256,
)
from seamline.errors import JARS_CHANGED, SeamlineError

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


@pytest.mark.parametrize("jars", PINNED, ids=lambda jars: jars.name)
def test_every_jar_that_is_named_has_a_checksum(jars: JarSet) -> None:
    assert set(jars.file_names) <= checksums().keys()


@pytest.mark.parametrize("known", [True, False])
def test_a_jar_that_is_not_the_published_one_is_not_used(
    tmp_path: pathlib.Path, known: bool
) -> None:
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_text(name)
    wanted = {path.name: sha256(path) for path in tmp_path.iterdir()}
    check(tmp_path, wanted)
    (tmp_path / "b.jar").write_text("another")
    if not known:
        del wanted["b.jar"]
    with pytest.raises(SeamlineError, match=r"b\.jar is not the file") as caught:
        check(tmp_path, wanted)
    assert caught.value.code is JARS_CHANGED

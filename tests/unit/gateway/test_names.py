"""Goal: a name stands for one table, topic or variant, or it is refused by name.

Method: names of one to three parts against a configuration of one catalog and one cluster.
"""

from __future__ import annotations

import pathlib

import pytest
from support import offline

from seamline.gateway import names
from seamline.gateway.config import Config
from seamline.gateway.names import TableName
from seamline.sql.errors import SeamlineError


@pytest.fixture
def config(tmp_path: pathlib.Path) -> Config:
    return offline.config(tmp_path)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("t",), TableName("lake", "", ("default", "t"))),
        (("s", "t"), TableName("lake", "", ("s", "t"))),
        (("lake", "a.b", "t"), TableName("lake", "", ("a", "b", "t"))),
        (("t$cold",), TableName("lake", "", ("default", "t"), "cold")),
        (("t$HOT",), TableName("lake", "", ("default", "t"), "hot")),
        (("s", "t$seam"), TableName("lake", "", ("s", "t"), "seam")),
        (("default", "topic.with.dots"), TableName("", "default", ("topic.with.dots",))),
        (("default", "default", "topic"), TableName("", "default", ("topic",))),
    ],
)
def test_a_name_is_resolved(config: Config, parts: tuple[str, ...], expected: TableName) -> None:
    assert names.resolve(parts, names.session(config), config) == expected


def test_a_session_fills_in_what_a_name_leaves_out(config: Config) -> None:
    session = names.session(config, "lake", "mine.deep")
    found = names.resolve(("t",), session, config)
    assert found.full == ("lake", "mine", "deep", "t")
    assert found.display == "lake.mine.deep.t"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        (("nope", "s", "t"), "CATALOG_NOT_FOUND"),
        (("t$nope",), "TABLE_NOT_FOUND"),
        (("a", "b", "c", "d"), "TABLE_NOT_FOUND"),
    ],
)
def test_what_stands_for_nothing_is_refused(
    config: Config, parts: tuple[str, ...], code: str
) -> None:
    with pytest.raises(SeamlineError) as caught:
        names.resolve(parts, names.session(config), config)
    assert caught.value.code.name == code


def test_a_session_needs_a_catalog_that_is_there(config: Config) -> None:
    with pytest.raises(SeamlineError) as caught:
        names.session(config, "nope")
    assert caught.value.code.name == "CATALOG_NOT_FOUND"

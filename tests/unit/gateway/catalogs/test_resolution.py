"""Goal: a name stands for one table, topic or variant, or it is refused by name.

Method: names of one to three parts against a catalog and a cluster; and worlds in which catalogs,
clusters, namespaces, tables and topics are called alike at every level, where each listed name
must stand for what was listed.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.named import NamedSources

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import SeamlineError
from seamline.gateway import names
from seamline.gateway.catalogs import resolution
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.system import listings, system_tables
from seamline.gateway.system.shapes import SHAPES

NEVER = NoDeadline()
SOURCES = NamedSources(
    {"lake": [("default", "bids"), ("a", "b", "t")]},
    {"default": ["bids", "topic.with.dots"], "kafka": ["bids"]},
)


def resolved(*parts: str, sources: NamedSources = SOURCES) -> TableName:
    return resolution.resolve(parts, resolution.session(sources.config), sources)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("t",), TableName("lake", "", ("default", "t"))),
        (("s", "t"), TableName("lake", "", ("s", "t"))),
        (("lake", "a.b", "t"), TableName("lake", "", ("a", "b", "t"))),
        (("LAKE", "s", "t"), TableName("lake", "", ("s", "t"))),
        (("t$cold",), TableName("lake", "", ("default", "t"), "cold")),
        (("t$HOT",), TableName("lake", "", ("default", "t"), "hot")),
        (("s", "t$seam"), TableName("lake", "", ("s", "t"), "seam")),
        (("t$odd",), TableName("lake", "", ("default", "t$odd"))),
        (("t$$cold",), TableName("lake", "", ("default", "t$cold"))),
        (("t$$cold$hot",), TableName("lake", "", ("default", "t$cold"), "hot")),
        (("lake", '"a.b".c', "t"), TableName("lake", "", ("a.b", "c", "t"))),
        (("kafka", "topic.with.dots"), TableName("", "kafka", ("topic.with.dots",))),
        (("KAFKA", "default", "topic"), TableName("", "kafka", ("topic",))),
        (("default", "default", "topic"), TableName("", "default", ("topic",))),
        (
            ("kafka", "information_schema", "Tables"),
            TableName("", "kafka", ("information_schema", "tables"), is_system=True),
        ),
        (
            ("Information_Schema", "tables"),
            TableName("lake", "", ("information_schema", "tables"), is_system=True),
        ),
        (
            ("lake", '"information_schema"', "tables"),
            TableName("lake", "", ("information_schema", "tables")),
        ),
    ],
)
def test_a_name_is_resolved(parts: tuple[str, ...], expected: TableName) -> None:
    assert resolved(*parts) == expected


def test_a_session_fills_in_what_a_name_leaves_out() -> None:
    session = resolution.session(SOURCES.config, "lake", "mine.deep")
    found = resolution.resolve(("t",), session, SOURCES)
    assert found.full == ("lake", "mine", "deep", "t")
    assert found.display == 'lake."mine.deep".t'


def test_a_session_may_be_one_of_a_cluster() -> None:
    session = resolution.session(SOURCES.config, "kafka")
    assert resolution.resolve(("bids",), session, SOURCES) == TableName("", "kafka", ("bids",))


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        (("nope", "s", "t"), "CATALOG_NOT_FOUND"),
        (("kafka", "s", "t"), "SCHEMA_NOT_FOUND"),
        (("t$cold$hot",), "TABLE_NOT_FOUND"),
        (("a", "b", "c", "d"), "TABLE_NOT_FOUND"),
    ],
)
def test_what_stands_for_nothing_is_refused(parts: tuple[str, ...], code: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        resolved(*parts)
    assert caught.value.code.name == code


def test_a_session_needs_a_catalog_that_is_there() -> None:
    with pytest.raises(SeamlineError) as caught:
        resolution.session(SOURCES.config, "nope")
    assert caught.value.code.name == "CATALOG_NOT_FOUND"


def test_a_schema_hides_the_cluster_that_is_called_like_it() -> None:
    assert resolved("default", "bids") == TableName("lake", "", ("default", "bids"))
    assert resolved("DEFAULT", "bids").full == ("lake", "DEFAULT", "bids")
    with pytest.raises(SeamlineError) as caught:
        LoadedTables(SOURCES).now([resolved("default", "topic.with.dots")])
    assert caught.value.code.name == "TABLE_NOT_FOUND"
    assert 'default.default."topic.with.dots"' in caught.value.hint


# --- Every listed name is what was listed ------------------------------------------------------

SCHEMAS = ("default", "information_schema", "Information_Schema")
ALIKE = (*SCHEMAS, "a", "A", "b", "a.b", 'a"b', "x$cold")
TABLES = st.sampled_from((*ALIKE, "x", "x$$cold", "x$", "$cold", "x$cold$hot", "x$odd", ""))
LEVELS = st.sampled_from((*ALIKE, "default.a"))
IDENTIFIERS = st.builds(
    lambda namespace, table: (*namespace, table),
    st.lists(LEVELS, min_size=1, max_size=3).map(tuple),
    TABLES,
)
TOPICS = st.sampled_from(("default", "a", "A", "b", "a.b", "x", "information_schema", "tables"))


@st.composite
def worlds(draw: st.DrawFn) -> NamedSources:
    """Catalogs, clusters and what is in them, called alike."""
    labels = draw(st.lists(st.sampled_from(ALIKE), min_size=2, max_size=4, unique_by=str.lower))
    cut = draw(st.integers(1, len(labels) - 1))
    return NamedSources(
        {name: draw(st.lists(IDENTIFIERS, max_size=6)) for name in labels[:cut]},
        {name: draw(st.lists(TOPICS, max_size=4, unique=True)) for name in labels[cut:]},
    )


@examples(300)
@given(world=worlds())
def test_every_listed_name_stands_for_what_was_listed(world: NamedSources) -> None:
    config = world.config
    found: set[tuple[str, ...]] = set()
    for source in listings.catalogs(world):
        rows = information(world, source, "tables")
        for catalog, schema, table, _, topic, _ in rows:
            own = resolution.session(config, source, schema)
            whole = resolution.resolve((catalog, schema, table), resolution.session(config), world)
            for short in ((schema, table), (table,)):
                assert resolution.resolve(short, own, world) == whole
            assert resolution.resolve(names.split(whole.display), own, world) == whole
            assert listed(world, whole, topic)
            found.add(whole.full)
        for schema in listings.schemas(world, source):
            assert resolution.resolve_schema(
                (source, schema), resolution.session(config), world
            ) == (
                source,
                schema,
            )
            assert resolution.resolve_schema(
                (schema,), resolution.session(config, source), world
            ) == (
                source,
                schema,
            )
            if schema != names.INFORMATION_SCHEMA:
                shown = [n.table for n in listings.tables(world, source, schema, NEVER)]
                assert shown == [row[2] for row in rows if row[1] == schema]
        assert [row[1] for row in information(world, source, "schemata")] == listings.schemas(
            world, source
        )
        assert {row[:3] for row in information(world, source, "columns")} == {r[:3] for r in rows}
    assert found == every_name(world)


def information(world: NamedSources, source: str, table: str) -> list[tuple[str, ...]]:
    parts = (source, names.INFORMATION_SCHEMA, table)
    name = resolution.resolve(parts, resolution.session(world.config), world)
    assert name.is_system
    _, rows = system_tables.information_schema(name, world, NEVER)
    return [tuple(row.values()) for row in rows.to_pylist()]


def listed(world: NamedSources, name: TableName, topic: str | None) -> bool:
    """Whether the name is that of the topic, or of a table that is there as it is spelt."""
    if name.is_system:
        return name in listings.tables(world, name.catalog, name.schema, NEVER)
    if topic is not None:
        return name == TableName("", name.cluster, (topic,)) and topic in world.log(
            name.cluster
        ).topics(NEVER)
    return world.cold(name.catalog).load(name.path).state.name == name.full


def every_name(world: NamedSources) -> set[tuple[str, ...]]:
    tables = {
        (name, *identifier)
        for name in world.config.catalogs
        for namespace in world.cold(name).namespaces()
        for identifier in world.cold(name).tables(namespace)
    }
    topics = {(n, t) for n in world.config.clusters for t in world.log(n).topics(NEVER)}
    own = {
        (names.SYSTEM_CATALOG, schema, table) for schema, known in SHAPES.items() for table in known
    }
    return tables | topics | own

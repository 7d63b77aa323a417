"""Goal: SQLAlchemy, and pandas through it, read and write what a gateway has, with its types.

Method: SQL is compiled and compared; a gateway without a broker answers the rest.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import exc, orm
from support.gateway import Gateway

import seamline
from seamline.sqlalchemy.dialect import SeamlineDialect
from seamline.sqlalchemy.types import MAP, ROW, from_name

DIALECT = SeamlineDialect()
TYPES: dict[str, Any] = {
    "boolean": sa.BOOLEAN(),
    "integer": sa.INTEGER(),
    "bigint": sa.BIGINT(),
    "real": sa.REAL(),
    "double": sa.DOUBLE(),
    "decimal(10,2)": sa.DECIMAL(10, 2),
    "varchar": sa.VARCHAR(),
    "varchar(5)": sa.VARCHAR(5),
    "varbinary": sa.VARBINARY(),
    "date": sa.DATE(),
    "time(6)": sa.TIME(),
    "timestamp(6)": sa.TIMESTAMP(),
    "timestamp(6) with time zone": sa.TIMESTAMP(timezone=True),
    "uuid": sa.UUID(),
    "json": sa.JSON(),
    "array(decimal(10,2))": sa.ARRAY(sa.DECIMAL(10, 2)),
    "map(varchar, array(bigint))": MAP(sa.VARCHAR(), sa.ARRAY(sa.BIGINT())),
    'row(a bigint, "b c" timestamp(6))': ROW(("a", sa.BIGINT()), ("b c", sa.TIMESTAMP())),
}


@pytest.fixture
def engine(offline_gateway: Gateway) -> Iterator[sa.Engine]:
    engine = sa.create_engine(offline_gateway.url.replace("http", "seamline"))
    yield engine
    engine.dispose()


def compiled(statement: sa.ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=DIALECT)).split())


# --- Addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "url", "options"),
    [
        ("seamline://", "http://127.0.0.1:8474", {}),
        ("seamline://h:1/lake", "http://h:1", {"catalog": "lake"}),
        ("seamline://h/lake/shop", "http://h:8474", {"catalog": "lake", "schema": "shop"}),
        ("seamline://ann:p%40@h?tls=true", "https://h:8474", {"user": "ann", "password": "p@"}),
        ("seamline://[::1]/?access_token=t", "http://[::1]:8474", {"access_token": "t"}),
        ("seamline://h?engine=duckdb&ca=f", "http://h:8474", {"engine": "duckdb", "ca": "f"}),
    ],
)
def test_addresses(address: str, url: str, options: dict[str, str]) -> None:
    assert DIALECT.create_connect_args(sa.make_url(address)) == ([url], options)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(exc.ArgumentError, match="'ssl' is not an option"):
        DIALECT.create_connect_args(sa.make_url("seamline://h?ssl=true"))


# --- SQL -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_read_and_written(name: str) -> None:
    assert repr(from_name(name)) == repr(TYPES[name])
    assert DIALECT.type_compiler_instance.process(TYPES[name]).lower() in {
        name,
        name.replace("(6)", ""),
    }


def test_a_table_has_names_and_types() -> None:
    table = sa.Table(
        "order",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("Text", sa.Text, nullable=False, unique=True),
    )
    assert (
        compiled(sa.schema.CreateTable(table))
        == 'CREATE TABLE "order" ( id INTEGER, "Text" varchar NOT NULL )'
    )
    refused = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, server_default="1"))
    with pytest.raises(exc.CompileError):
        compiled(sa.schema.CreateTable(refused))


def test_values_that_are_written_out_have_their_types() -> None:
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.UTC)
    number = uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")
    for value, type_, wanted in (
        (moment, sa.Date(), "DATE '2024-02-29'"),
        (moment.date(), sa.Date(), "DATE '2024-02-29'"),
        (moment.time(), sa.Time(), "TIME '01:02:03.000004'"),
        (moment, sa.DateTime(timezone=True), "TIMESTAMP '2024-02-29 01:02:03.000004+00:00'"),
        (number, sa.Uuid(), f"UUID '{number}'"),
        (b"\x00\xff", sa.LargeBinary(), "X'00ff'"),
        ("it's", sa.Text(), "'it''s'"),
    ):
        query = sa.select(sa.literal(value, type_, literal_execute=True))
        text = str(query.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True}))
        assert text.startswith(f"SELECT {wanted} AS ")


def test_operators_that_are_functions() -> None:
    a, b = sa.column("a", sa.Integer), sa.column("b", sa.String)
    for expression, wanted in (
        (a.bitwise_and(1), "bitwise_and(a, ?)"),
        (a.bitwise_or(1), "bitwise_or(a, ?)"),
        (a.bitwise_xor(1), "bitwise_xor(a, ?)"),
        (a.bitwise_not(), "bitwise_not(a)"),
        (a.bitwise_lshift(1), "bitwise_left_shift(a, ?)"),
        (a.bitwise_rshift(1), "bitwise_right_shift_arithmetic(a, ?)"),
        (b.regexp_replace("x", "y"), "regexp_replace(b, ?, ?)"),
        (b.regexp_replace("x", "y", flags="i"), "regexp_replace(b, '(?i)' || ?, ?)"),
    ):
        assert compiled(expression) == wanted


def test_rows_are_changed_in_one_table() -> None:
    one, other = (
        sa.table(name, sa.column("id", sa.Integer), sa.column("x", sa.Text)) for name in "to"
    )
    latest = sa.select(sa.func.max(other.c.x)).where(other.c.id == one.c.id).scalar_subquery()
    for statement, wanted in (
        (one.delete(), "DELETE FROM t"),
        (one.delete().where(one.c.id == 1), "DELETE FROM t WHERE t.id = ?"),
        (
            one.update().where(one.c.id.in_(sa.select(other.c.id))).values(x=latest),
            "UPDATE t SET x=(SELECT max(o.x) AS max_1 FROM o WHERE o.id = t.id)"
            " WHERE t.id IN (SELECT o.id FROM o)",
        ),
    ):
        assert compiled(statement) == wanted
    for refused, message in (
        (one.delete().where(one.c.id == other.c.id), "DELETE reads other tables in subqueries"),
        (one.update().where(one.c.id == other.c.id).values(x="a"), "UPDATE reads other tables"),
    ):
        with pytest.raises(exc.CompileError, match=message):
            compiled(refused)


def test_queries(engine: sa.Engine) -> None:
    values = sa.values(sa.column("x", sa.Integer), name="t").data([(1,), (2,), (3,)])
    x = values.c.x
    with engine.connect() as connection:

        def rows(query: sa.Select[Any]) -> list[Any]:
            return list(connection.execute(query).scalars().all())

        assert rows(sa.select(x).order_by(x).limit(1).offset(1)) == [2]
        assert rows(sa.select(x).order_by(x.desc()).offset(1)) == [2, 1]
        assert rows(sa.select(x).where(x.in_([1, 3])).order_by(x)) == [1, 3]
        assert rows(sa.select(x).where(x.in_([]))) == []
        assert rows(sa.select(x).where(x == 2).with_for_update()) == [2]
        text = sa.literal("abc")
        found = sa.select(
            text.regexp_match("^A", flags="i"), ~text.regexp_match("^A"), text.ilike("AB%"),
            sa.cast("7", sa.Integer) // 2, sa.true(), sa.null(),
        )  # fmt: skip
        assert tuple(connection.execute(found).one()) == (True, True, True, 3, True, None)


# --- A gateway's ---------------------------------------------------------------------------------


@pytest.mark.prove
def test_tables_are_made_written_reflected_and_read(engine: sa.Engine) -> None:
    made = sa.Table(
        "sa_made",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, nullable=False, index=True, comment="its number"),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("at", sa.DateTime(timezone=True)),
        sa.Column("uid", sa.Uuid),
        sa.Column("data", sa.LargeBinary),
        sa.Column("ok", sa.Boolean),
        comment="what is sold",
    )
    row = (
        1, decimal.Decimal("10.50"), datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC),
        uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"), b"\x00x", True,
    )  # fmt: skip
    made.create(engine)
    with engine.begin() as connection:
        names = made.columns.keys()
        connection.execute(
            made.insert(),
            [dict(zip(names, row, strict=True)), {"id": 2} | dict.fromkeys(names[1:])],
        )
        connection.exec_driver_sql("CREATE VIEW sa_view AS SELECT id FROM sa_made")
    found = sa.inspect(engine)
    assert found.default_schema_name == "default"
    assert "default" in found.get_schema_names()
    assert "sa_made" in found.get_table_names()
    assert found.get_view_names() == ["sa_view"]
    assert "sa_made" in found.get_view_definition("sa_view")
    assert found.has_table("sa_made")
    assert found.has_table("SA_VIEW")
    assert not found.has_table("sa_made", schema="nowhere")
    assert found.get_table_comment("sa_made") == {"text": "what is sold"}
    with pytest.raises(exc.NoSuchTableError):
        found.get_columns("nowhere")
    table = sa.Table("sa_made", sa.MetaData(), autoload_with=engine)
    assert [(c.name, str(c.type), c.nullable) for c in table.columns] == [
        ("id", "BIGINT", False), ("price", "DECIMAL(10, 2)", True), ("at", "TIMESTAMP", True),
        ("uid", "UUID", True), ("data", "VARBINARY", True), ("ok", "BOOLEAN", True),
    ]  # fmt: skip
    assert (table.c.id.comment, table.c.price.comment) == ("its number", None)
    assert found.get_indexes("sa_made") == []
    query = sa.select(table).order_by(table.c.id)
    with engine.connect() as connection:
        assert [tuple(r) for r in connection.execute(query)] == [row, (2, *[None] * 5)]
        frame = pd.read_sql(query, connection)
        assert list(frame["id"]) == [1, 2]
        assert frame["price"][0] == row[1]
        connection.exec_driver_sql("DROP VIEW sa_view")
    made.drop(engine)
    assert not sa.inspect(engine).has_table("sa_made")


class Base(orm.DeclarativeBase):
    """The base of what is mapped."""


class Auction(Base):
    """An object that is mapped."""

    __tablename__ = "sa_auctions"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True)
    state: orm.Mapped[str]
    version = orm.mapped_column(sa.BigInteger)
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012 - SQLAlchemy's way


@pytest.mark.prove
def test_objects_are_changed_and_deleted(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session, orm.Session(engine) as late:
        session.add_all(Auction(id=number, state="open") for number in range(1, 5))
        session.flush()
        first, second, third = (session.get_one(Auction, number) for number in (1, 2, 3))
        outdated = late.get_one(Auction, 1)
        first.state, second.state = "sold", "sold"
        session.delete(third)
        session.commit()
        paid: Any = session.execute(
            sa.update(Auction).where(Auction.state == "sold").values(state="paid")
        )
        assert paid.rowcount == 2
        assert (first.state, first.version, second.state) == ("paid", 2, "paid")
        outdated.state = "closed"
        with pytest.raises(orm.exc.StaleDataError):  # another has changed it since
            late.flush()
        found = sa.select(Auction.id, Auction.state).order_by(Auction.id)
        assert session.execute(found).all() == [(1, "paid"), (2, "paid"), (4, "open")]
        deleted: Any = session.execute(sa.delete(Auction))
        assert deleted.rowcount == 3
    Base.metadata.drop_all(engine)


@pytest.mark.prove
def test_pandas_replaces_and_appends(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    for how, wanted in (("append", 2), ("append", 4), ("replace", 2), ("delete_rows", 2)):
        assert frame.to_sql("sa_frame", engine, if_exists=how, index=False) == 2
        assert len(pd.read_sql("sa_frame", engine)) == wanted
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP TABLE sa_frame")


@pytest.mark.prove
def test_names_ignore_case_and_floats_become_decimals(engine: sa.Engine) -> None:
    name, metadata = "Über2", sa.MetaData()
    column = sa.Column("x", sa.Numeric(8, 4, asdecimal=False))
    table = sa.Table(name, metadata, column, sa.Column("y", sa.Float))
    metadata.create_all(engine)
    assert sa.inspect(engine).has_table(name)
    assert [found["name"] for found in sa.inspect(engine).get_columns(name)] == ["x", "y"]
    with engine.connect() as connection:
        connection.execute(table.insert(), [{"x": 15.7563, "y": 0.1}])
        assert connection.execute(table.select()).all() == [(15.7563, 0.1)]
    metadata.drop_all(engine)
    assert not sa.inspect(engine).has_table(name)


def test_whoever_gets_a_connection_from_the_pool_starts_over(engine: sa.Engine) -> None:
    for value in (1, 2):
        with engine.connect() as one, engine.connect() as other:
            one.exec_driver_sql(f"CREATE TABLE sa_again AS SELECT {value} AS a")
            assert other.exec_driver_sql("SELECT a FROM sa_again").scalar() == value
            one.exec_driver_sql("DROP TABLE sa_again")


def test_connections(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert connection.dialect.server_version_info
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
        assert connection.connection.dbapi_connection is not None
        with pytest.raises(exc.ProgrammingError) as caught:
            connection.exec_driver_sql("SELECT x FROM nowhere")
        assert isinstance(caught.value.orig, seamline.ProgrammingError)
        assert caught.value.orig.code.name == "TABLE_NOT_FOUND"
    away = sa.create_engine("seamline://127.0.0.1:1")
    with pytest.raises(exc.OperationalError, match="GATEWAY_UNAVAILABLE"):
        away.connect()

"""Goal: whatever a tool asks Trino's JDBC driver about what there is, it is told.

Method: every method of the driver's metadata, and of its prepared statements, found by reflection
and called, over tables whose names have the letters that patterns are made of. What fails must be
what the driver itself refuses, whatever it talks to: all of that is listed here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from support import offline
from support.gateway import Gateway
from support.java_library import java_library
from support.trino_clients import JDBC, VALUES, connected, jar_of, query, texts

pytestmark = [pytest.mark.integration, pytest.mark.prove]

REFUSED = ("SQLFeatureNotSupportedException", "NotImplementedException")
"""How the driver says that it lacks something."""
DATABASE_REFUSES = {
    "getBestRowIdentifier", "getColumnPrivileges", "getCrossReference", "getExportedKeys",
    "getFunctionColumns", "getFunctions", "getIndexInfo", "getTablePrivileges", "getVersionColumns",
}  # fmt: skip
STATEMENT_REFUSES = {
    "setArray", "setAsciiStream", "setBinaryStream", "setBlob", "setCharacterStream", "setClob",
    "setDate(int,Date,Calendar)", "setNCharacterStream", "setNClob", "setRef", "setRowId",
    "setObject(int,Object,SQLType)", "setObject(int,Object,SQLType,int)",
    "setObject(int,Object,int,int)", "setSQLXML", "setTime(int,Time,Calendar)", "setURL",
    "setUnicodeStream",
}  # fmt: skip
TABLES = {
    "a_b": '"x_y" bigint NOT NULL, "x%y" varchar, "xzy" date',
    "azb": "id bigint",
    "plain": "id bigint, price decimal(10, 2), at timestamp with time zone, tags array(varchar)",
}
KINDS = {type_: sql for sql, type_, _ in VALUES if type_ != "unknown"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = offline.config(tmp_path_factory.mktemp("jdbc"))
    own = offline.MemoryConnections(config)  # since listing the topics of a cluster takes its time
    with contextlib.closing(Gateway(config, connections=own)) as running:
        for name, columns in TABLES.items():
            running.rows(f"CREATE TABLE {name} ({columns})")
        running.rows("CREATE VIEW seen AS SELECT id FROM plain")
        running.rows("COMMENT ON COLUMN plain.price IS 'in euros'")
        yield running


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_library(jar_of(JDBC)) as running:
        yield running


@pytest.fixture(scope="module", params=["true", "false"], ids=["prepared", "immediate"])
def jdbc(request: pytest.FixtureRequest, gateway: Gateway, jvm: Any) -> Iterator[Any]:
    """A connection whose prepared statements travel in headers, or in bodies."""
    connection = connected(jvm, gateway.url, explicitPrepare=request.param)
    with contextlib.closing(connection):
        yield connection


@pytest.fixture(scope="module")
def java(jvm: Any) -> Java:
    return Java(jvm)


class Java:
    """Calls methods of Java by what reflection says of them.

    Args:
        jvm: Java, with the driver.
    """

    def __init__(self, jvm: Any) -> None:
        self._lang = jvm.java.lang

    def signatures(self, interface: str) -> dict[str, Any]:
        """The methods of an interface, by name and the types of their parameters."""
        found = {}
        for method in self._lang.Class.forName(interface).getMethods():
            kinds = [kind.getSimpleName() for kind in method.getParameterTypes()]
            found[f"{method.getName()}({','.join(kinds)})"] = method
        return found

    def all(self, interface: str, on: Any) -> tuple[dict[str, Any], set[str]]:
        """What every method answers, and those that the driver refuses.

        A parameter that is a text is null, a number 1, a boolean true.
        """
        answered, refused = {}, set()
        for signature, method in self.signatures(interface).items():
            kinds = [kind.getName() for kind in method.getParameterTypes()]
            try:
                found = method.invoke(
                    on, self._array([self._argument(k, interface) for k in kinds])
                )
            except Py4JJavaError as error:
                said = error.java_exception.getCause().toString()
                assert any(each in said for each in REFUSED), f"{signature}: {said}"
                refused.add(signature)
                continue
            is_result = method.getReturnType().getName() == "java.sql.ResultSet"
            answered[signature] = texts(found) if is_result else found
        return answered, refused

    def _array(self, values: Sequence[Any]) -> Any:
        made = self._lang.reflect.Array.newInstance(
            self._lang.Class.forName("java.lang.Object"), len(values)
        )
        for place, value in enumerate(values):
            self._lang.reflect.Array.set(made, place, value)
        return made

    def _argument(self, kind: str, interface: str) -> Any:
        if kind == "java.lang.Class":
            return self._lang.Class.forName(interface)
        return {"int": 1, "boolean": True}.get(kind)


def names(signatures: set[str]) -> set[str]:
    return {signature.partition("(")[0] for signature in signatures}


# --- DatabaseMetaData ----------------------------------------------------------------------------


@pytest.mark.one_in(prove=2)
def test_every_method_of_the_database(jdbc: Any, java: Java) -> None:
    answered, refused = java.all("java.sql.DatabaseMetaData", jdbc.getMetaData())
    assert names(refused) == DATABASE_REFUSES
    assert len(answered) > 150
    assert answered["getCatalogs()"] == [("default",), ("lake",), ("system",)]
    assert answered["getTableTypes()"] == [("TABLE",), ("VIEW",)]
    assert answered["getSchemas()"] == answered["getSchemas(String,String)"]
    assert ("default", "lake") in answered["getSchemas()"]
    tables = [row[2] for row in answered["getTables(String,String,String,String[])"] if row]
    assert {*TABLES, "seen", "columns", "queries"} <= set(tables)
    assert answered["getDatabaseProductVersion()"] == "seamline"
    assert answered["getSearchStringEscape()"] == "\\"
    for nothing in (
        "getPrimaryKeys(String,String,String)", "getImportedKeys(String,String,String)",
        "getProcedures(String,String,String)", "getUDTs(String,String,String,int[])",
        "getProcedureColumns(String,String,String,String)",
        "getPseudoColumns(String,String,String,String)",
        "getSuperTables(String,String,String)", "getSuperTypes(String,String,String)",
        "getAttributes(String,String,String,String)",
    ):  # fmt: skip
        assert answered[nothing] == []


def test_tables_by_pattern(jdbc: Any, jvm: Any) -> None:
    """`_` and `%` stand for letters, unless they are escaped; an empty text is a name, too."""

    def tables(*asked: str | None, kinds: Sequence[str] | None = None) -> list[str | None]:
        listed = None
        if kinds is not None:
            listed = jvm.java.lang.reflect.Array.newInstance(
                jvm.java.lang.Class.forName("java.lang.String"), len(kinds)
            )
            for place, kind in enumerate(kinds):
                jvm.java.lang.reflect.Array.set(listed, place, kind)
        return [row[2] for row in texts(jdbc.getMetaData().getTables(*asked, listed))]

    assert tables("lake", "default", "a_b") == ["a_b", "azb"]
    assert tables("lake", "default", "a\\_b") == ["a_b"]
    assert tables("lake", "def%", "%b") == ["a_b", "azb"]
    assert tables("lake", "default", "%") == ["a_b", "azb", "plain", "seen"]
    assert tables("lake", "default", "%", kinds=["VIEW"]) == ["seen"]
    assert tables("lake", "default", None, kinds=["TABLE"]) == ["a_b", "azb", "plain"]
    assert tables("lake", "default", None, kinds=["SYNONYM"]) == []
    assert tables(None, "default", "plain") == ["plain"]
    for nothing in (("", None, None), ("lake", "", None), ("lake", "default", ""),
                    ("LAKE", None, None), ("l%", None, None)):  # fmt: skip
        assert tables(*nothing) == []


def test_columns_by_pattern(jdbc: Any) -> None:
    def columns(*asked: str | None) -> list[tuple[str | None, ...]]:
        return texts(jdbc.getMetaData().getColumns(*asked))

    def found(*asked: str | None) -> list[str]:
        return [f"{row[2]}.{row[3]}" for row in columns(*asked)]

    assert found("lake", "default", "a_b", None) == ["a_b.x_y", "a_b.x%y", "a_b.xzy", "azb.id"]
    assert found("lake", "default", "a\\_b", "x_y") == ["a_b.x_y", "a_b.x%y", "a_b.xzy"]
    assert found("lake", "default", "a\\_b", "x\\_y") == ["a_b.x_y"]
    assert found("lake", "default", "a\\_b", "x\\%y") == ["a_b.x%y"]
    assert found("lake", None, "%", "price") == ["plain.price"]
    assert found("lake", "default", "seen", "%") == ["seen.id"]
    assert found("lake", "default", "nothing", "%") == []
    (key,) = columns("lake", "default", "a\\_b", "x\\_y")
    assert key == (
        "lake", "default", "a_b", "x_y", "-5", "bigint", "19", None, "0", "10", "0", None, None,
        None, None, None, "1", "NO", None, None, None, None, None, None,
    )  # fmt: skip
    (price,) = columns("lake", "default", "plain", "price")
    assert price[4:12] == ("3", "decimal(10,2)", "10", None, "2", "10", "1", "in euros")
    types = {row[3]: (row[4], row[5]) for row in columns("lake", "default", "plain", None)}
    assert types == {
        "id": ("-5", "bigint"),
        "price": ("3", "decimal(10,2)"),
        "at": ("2014", "timestamp(6) with time zone"),
        "tags": ("2003", "array(varchar)"),
    }


def test_schemas_and_types(jdbc: Any) -> None:
    about = jdbc.getMetaData()
    assert texts(about.getSchemas("lake", "def%")) == [("default", "lake")]
    assert texts(about.getSchemas("lake", "information\\_schema")) == [
        ("information_schema", "lake")
    ]
    assert texts(about.getSchemas("nothing", None)) == []
    types = texts(about.getTypeInfo())
    numbers = [int(row[1] or 0) for row in types]
    assert numbers == sorted(numbers), "as JDBC says that they are sorted"
    raw = {type_.partition("(")[0] for type_ in KINDS if "time zone" not in type_}
    wanted = {name for name in raw if not name.startswith("interval")}
    zoned = {"time with time zone", "timestamp with time zone"}
    assert wanted | zoned == {row[0] for row in types}


# --- Results, parameters, prepared statements ----------------------------------------------------


def test_every_method_of_a_result_s_columns(jdbc: Any, java: Java) -> None:
    columns = ", ".join(f"{sql} AS c{place}" for place, (sql, *_) in enumerate(VALUES))
    about = jdbc.createStatement().executeQuery(f"SELECT {columns}").getMetaData()
    answered, refused = java.all("java.sql.ResultSetMetaData", about)
    assert (refused, answered["getColumnCount()"]) == (set(), len(VALUES))
    methods = [name.partition("(")[0] for name in answered if name.endswith("(int)")]
    prepared = jdbc.prepareStatement(f"SELECT {columns}")
    described = prepared.getMetaData()
    for place, (sql, type_, _) in enumerate(VALUES, start=1):
        told = {method: getattr(about, method)(place) for method in methods}
        assert told["getColumnLabel"] == told["getColumnName"] == f"c{place - 1}"
        assert told["getColumnTypeName"].replace(", ", ",") == type_.replace(", ", ","), sql
        before = {method: getattr(described, method)(place) for method in methods}
        same = ("getColumnType", "getColumnClassName", "getPrecision", "getScale", "isSigned")
        assert [before[each] for each in same] == [told[each] for each in same], sql
    prepared.close()


@pytest.mark.one_in(prove=2)
def test_every_method_of_parameters(jdbc: Any, java: Java) -> None:
    for type_, sql in KINDS.items():
        prepared = jdbc.prepareStatement(f"SELECT {sql} AS x, CAST(? AS {type_})")
        about, described = prepared.getParameterMetaData(), prepared.getMetaData()
        answered, refused = java.all("java.sql.ParameterMetaData", about)
        assert (refused, answered["getParameterCount()"]) == (set(), 1)
        assert answered["getParameterType(int)"] == described.getColumnType(1), type_
        assert answered["getParameterClassName(int)"] == described.getColumnClassName(1), type_
        prepared.close()


def test_every_value_that_a_prepared_statement_takes(jdbc: Any, jvm: Any, java: Java) -> None:
    sql = jvm.java.sql
    moment = sql.Timestamp.valueOf("2024-02-29 01:02:03.123456")
    calendar = jvm.java.util.Calendar.getInstance()
    given: dict[str, tuple[Sequence[Any], str, str | None]] = {
        "setNull(int,int)": ([12], "varchar", None),
        "setNull(int,int,String)": ([12, "varchar"], "varchar", None),
        "setBoolean(int,boolean)": ([True], "boolean", "true"),
        "setByte(int,byte)": ([-7], "tinyint", "-7"),
        "setShort(int,short)": ([7], "smallint", "7"),
        "setInt(int,int)": ([7], "integer", "7"),
        "setLong(int,long)": ([7], "bigint", "7"),
        "setFloat(int,float)": ([0.1], "real", "0.1"),
        "setDouble(int,double)": ([0.1], "double", "0.1"),
        "setBigDecimal(int,BigDecimal)": (
            [jvm.java.math.BigDecimal("12.50")], "decimal(4,2)", "12.50"
        ),
        "setString(int,String)": (["ü 'x' ?"], "varchar", "ü 'x' ?"),
        "setNString(int,String)": (["x"], "varchar", "x"),
        "setBytes(int,byte[])": ([b"\x00\xff"], "varbinary", "0x00FF"),
        "setDate(int,Date)": ([sql.Date.valueOf("2024-02-29")], "date", "2024-02-29"),
        "setTime(int,Time)": ([sql.Time.valueOf("01:02:03")], "time(3)", "01:02:03.000"),
        "setTimestamp(int,Timestamp)": ([moment], "timestamp(3)", "2024-02-29 01:02:03.123"),
        "setTimestamp(int,Timestamp,Calendar)": (
            [moment, calendar], "timestamp(3)", "2024-02-29 01:02:03.123"
        ),
        "setObject(int,Object)": (["x"], "varchar", "x"),
        "setObject(int,Object,int)": (["7", -5], "bigint", "7"),
    }  # fmt: skip
    known = set(java.signatures("java.sql.PreparedStatement"))
    setters = {name for name in known if name.startswith("set") and "(int," in name}
    refused = {name for name in setters if {name, name.partition("(")[0]} & STATEMENT_REFUSES}
    assert setters - refused == set(given)
    for signature, (values, type_, text) in given.items():
        prepared = jdbc.prepareStatement("SELECT ?")
        getattr(prepared, signature.partition("(")[0])(1, *values)
        result = prepared.executeQuery()
        assert result.getMetaData().getColumnTypeName(1) == type_, signature
        assert texts(result) == [(text,)], signature
        prepared.close()


def test_batches_and_counts(jdbc: Any) -> None:
    prepared = jdbc.prepareStatement("INSERT INTO azb VALUES (?)")
    for value in (1, 2):
        prepared.setLong(1, value)
        prepared.addBatch()
    assert list(prepared.executeBatch()) == [1, 1]
    prepared.setLong(1, 3)
    assert prepared.executeLargeUpdate() == 1
    prepared.clearParameters()
    with pytest.raises(Py4JJavaError):
        prepared.executeUpdate()
    prepared.close()
    assert query(jdbc, "SELECT count(*) FROM azb WHERE id < 4")[0][0] in {"3", "6"}

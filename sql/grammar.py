"""The statements that have a grammar of keywords: SHOW, DESCRIBE, SET SESSION, USE and the like.

They are the same whatever dialect a request's queries are written in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seamline.errors import STATEMENT_NOT_ALLOWED, SYNTAX_ERROR, SeamlineError
from seamline.sql.statements import DropTable, SetSession, Show, Statement, Use
from seamline.sql.words import Words


def read(words: Words) -> Statement | None:
    """The statement, if it is one of these.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED.
    """
    for start, reader in _READERS.items():
        if words.take(*start.split()):
            statement = reader(words)
            words.end()
            return statement
    return None


# --- SHOW and DESCRIBE ---------------------------------------------------------------------------


def _describe(words: Words) -> Show:
    return Show("columns", location=words.place(), name=words.name())


def _show(words: Words) -> Show:
    what = next((what for what in _SHOWN if words.take(*what.upper().split())), None)
    if what is None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"SHOW {words.peek()} is not known",
            location=words.place(),
            hint="SHOW CATALOGS, SCHEMAS, TABLES, COLUMNS, FUNCTIONS, SESSION, STATS and CREATE "
            "TABLE are.",
        )
    place = words.place(1)
    if what == "stats":
        words.require("FOR")
        return Show(what, words.name(), location=place)
    if what.startswith("create"):
        return Show(what, location=words.place(), name=words.name())
    name: tuple[str, ...] = ()
    if _SHOWN[what] and (words.take("FROM") or words.take("IN")):
        name = words.name()
    like = words.string() if words.take("LIKE") else None
    escape = words.string() if like is not None and words.take("ESCAPE") else None
    return Show(what, name, like, escape, place)


_SHOWN = {
    "create table": False,
    "catalogs": False,
    "functions": False,
    "session": False,
    "schemas": True,
    "tables": True,
    "columns": True,
    "stats": False,
}
"""What can be shown, and whether FROM may say of what."""


# --- The session ---------------------------------------------------------------------------------


def _set_session(words: Words) -> SetSession:
    place = words.place()
    name = ".".join(words.name())
    words.require("=")
    return SetSession(name, words.constant(), place)


def _reset_session(words: Words) -> SetSession:
    return SetSession(location=words.place(), name=".".join(words.name()), value=None)


def _use(words: Words) -> Use:
    place = words.place()
    name = words.name()
    if len(name) > 2:
        raise SeamlineError(
            SYNTAX_ERROR, "USE takes a schema, or a catalog and a schema", location=place
        )
    return Use(name, place)


# --- Tables --------------------------------------------------------------------------------------


def _drop_table(words: Words) -> DropTable:
    if_exists = words.take("IF", "EXISTS")
    return DropTable(location=words.place(), name=words.name(), if_exists=if_exists)


_READERS: Mapping[str, Callable[[Words], Statement]] = {
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SET SESSION": _set_session,
    "RESET SESSION": _reset_session,
    "USE": _use,
    "DROP TABLE": _drop_table,
}
"""The first words of a statement, and what reads the rest; longer ones first."""

r"""Meta commands: input at the prompt that starts with a backslash and is not SQL.

Those that query the gateway do so in SQL, so they see what statements of the session would see.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seamline.dbapi.errors import InterfaceError
from seamline.errors import INVALID_ARGUMENT
from seamline.terminal.lexis import Statement, statements
from seamline.terminal.output import WRITERS
from seamline.terminal.running import size

if TYPE_CHECKING:
    from seamline.shell.session import Session

SIGN = "\\"
WORDS = {"help": "?", "quit": "q", "exit": "q"}
"""Words that stand for a meta command when nothing else is typed, with or without a semicolon."""
_WATCH_S = 2.0
_WATCH_S_MAX = 86_400.0
_BAR_WIDTH = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Meta:
    """A meta command."""

    takes: str
    help: str
    run: Callable[[Session, str], None]


def meta_of(text: str) -> str:
    """Returns the meta command that a typed text is or stands for; empty for anything else."""
    text = text.strip()
    if text.startswith(SIGN):
        return text
    word = WORDS.get(text.rstrip("; ").lower())
    return f"{SIGN}{word}" if word is not None else ""


def obey(session: Session, line: str) -> None:
    """Executes a line that is a meta command, or a word that stands for one.

    Raises:
        SeamlineError: the command's failure; INVALID_ARGUMENT for an unknown meta command.
        EOFError: the session should end.
    """
    name, _, argument = meta_of(line).removeprefix(SIGN).rstrip(";").partition(" ")
    if name not in META:
        raise _wrong(f"{SIGN}{name} is not a meta command", hint=f"{SIGN}? lists them.")
    META[name].run(session, argument.strip())


def _wrong(message: str, *, hint: str) -> InterfaceError:
    return InterfaceError(INVALID_ARGUMENT, message, hint=hint)


def _describe(session: Session, argument: str) -> None:
    session.run(Statement(f"DESCRIBE {argument}" if argument else "SHOW TABLES"))


def _tables(session: Session, argument: str) -> None:
    session.run(Statement(f"SHOW TABLES FROM {argument}" if argument else "SHOW TABLES"))


def _catalogs(session: Session, _: str) -> None:
    session.run(Statement("SHOW CATALOGS"))


def _schemas(session: Session, argument: str) -> None:
    session.run(Statement(f"SHOW SCHEMAS FROM {argument}" if argument else "SHOW SCHEMAS"))


def _functions(session: Session, argument: str) -> None:
    pattern = argument.replace("*", "%").replace("'", "''").lower()
    like = f" LIKE '{pattern if '%' in pattern else f'%{pattern}%'}'" if pattern else ""
    session.run(Statement(f"SHOW FUNCTIONS{like}"))


def _expanded(session: Session, argument: str) -> None:
    is_on = _switched(argument, session.state.format == "vertical")
    session.state.format = "vertical" if is_on else "table"
    session.say(f"rows are shown {'one below the other' if is_on else 'as a table'}")


def _timing(session: Session, argument: str) -> None:
    session.state.timing = _switched(argument, session.state.timing)
    session.say(f"timing is {'on' if session.state.timing else 'off'}")


def _switched(argument: str, is_on: bool) -> bool:
    if not argument:
        return not is_on
    if argument not in {"on", "off"}:
        raise _wrong(f"{argument} is neither on nor off", hint="Leave it out to toggle.")
    return argument == "on"


def _receipt(session: Session, _: str) -> None:
    if not session.state.receipt:
        raise _wrong("there is no receipt", hint="A statement that reads tables leaves one.")
    for line in receipt_lines(session.state.receipt):
        session.print(line)


def receipt_lines(receipt: dict[str, Any]) -> list[str]:
    """Returns a receipt in full: the engine, the reason for it, and the seam of each table."""
    reason = receipt["engine_reason"]
    lines = [
        f"engine     {receipt['engine']}" + (f" ({reason})" if reason else ""),
        f"as of      {receipt['as_of']} ({receipt['freshness']})",
    ]
    for tier, store in (("cold", "files"), ("hot", "the log")):
        rows, bytes_ = receipt[f"rows_{tier}"], receipt[f"bytes_{tier}"]
        if rows is not None:  # else the reader may not see all of them
            read = f", {size(bytes_)} of {store}" if bytes_ is not None else ""
            lines.append(f"{tier:<10} {rows:,} rows{read}")
    for table in receipt["tables"]:
        lines += ["", f"table      {'.'.join(table['table'])}"]
        if table["snapshot_id"] is not None:
            read, total = table["files_read"], table["files_total"]
            files = f", {read:,} of {total:,} files" if total is not None else ""
            lines.append(f"snapshot   {table['snapshot_id']}{files}")
        if table["topic"]:
            lines.append(f"topic      {table['topic']} ({table['isolation']})")
        for partition, end in (table["end"] or {}).items():
            boundary = table["boundary"].get(partition, 0)
            lines.append(
                f"  p{partition:<4} {_bar(boundary, end)}  boundary {boundary:,}  end {end:,}"
            )
    return lines


def _bar(boundary: int, end: int) -> str:
    """Draws a seam: the snapshot's part, the boundary, and the part read from the log."""
    filled = round(_BAR_WIDTH * boundary / end) if end else 0
    return "█" * filled + "│" + "░" * (_BAR_WIDTH - filled)


def _token(session: Session, argument: str) -> None:
    state = session.state
    token = state.token if argument in {"", "use"} else argument
    if token is None:
        raise _wrong("there is no token", hint="A statement that reads tables leaves one.")
    if not argument:
        session.print(token)
        session.say(f"{SIGN}token use: the next statement reads the same rows")
        return
    state.token_next = token
    session.say("the next statement reads what that token stands for")


def _explain(session: Session, argument: str) -> None:
    sql = argument or _last(session).text
    last = session.state.last
    try:
        session.run(Statement(sql if sql.lower().startswith("explain") else f"EXPLAIN {sql}"))
    finally:
        session.state.last = last if not argument else Statement(argument)


def _last(session: Session) -> Statement:
    if session.state.last is None:
        raise _wrong("no statement has been run yet", hint="Give one.")
    return session.state.last


def _again(session: Session, _: str) -> None:
    session.run(_last(session))


def _edit(session: Session, argument: str) -> None:
    text = argument or (session.state.last.text if session.state.last is not None else "")
    try:
        edited = click.edit(text, extension=".sql")
    except click.ClickException as error:
        raise _wrong(error.format_message(), hint="EDITOR names the program.") from error
    if edited is None:
        session.say("nothing was saved, so nothing is run")
        return
    for statement in statements(edited):
        session.print(statement.text)
        session.run(statement)


def _watch(session: Session, argument: str) -> None:
    try:
        pause_s = float(argument) if argument else _WATCH_S
    except ValueError:
        pause_s = math.nan
    if not 0 <= pause_s <= _WATCH_S_MAX:
        raise _wrong(f"{argument} is not a number of seconds", hint="For example: \\watch 5.")
    statement = _last(session)
    while True:
        session.say(time.strftime("── %H:%M:%S, every ") + f"{pause_s:g} s, until Ctrl-C")
        session.run(statement, pages=False)
        time.sleep(max(0.1, pause_s))


def _include(session: Session, argument: str) -> None:
    if not argument:
        raise _wrong("\\i needs a file", hint="For example: \\i queries.sql.")
    session.run_file(pathlib.Path(argument))


def _output(session: Session, argument: str) -> None:
    path = pathlib.Path(argument).expanduser() if argument else None
    if path is not None:
        try:
            path.open("a").close()
        except OSError as error:
            raise _wrong(f"{argument} cannot be written: {error.strerror}", hint="") from error
    session.state.output = path
    session.say(f"results go to {argument or 'the screen'}")


def _format(session: Session, argument: str) -> None:
    if argument not in WRITERS:
        raise _wrong(
            f"there is no format {argument} at the prompt",
            hint=f"The formats are {', '.join(WRITERS)}.",
        )
    session.state.format = argument


def _set(session: Session, argument: str) -> None:
    name, _, value = argument.partition(" ")
    match name:
        case "pager":
            session.state.pages = _switched(value.strip(), session.state.pages)
            session.say(f"the pager is {'on' if session.state.pages else 'off'}")
        case "null":
            session.state.null = value.strip().strip("'")
        case _:
            raise _wrong(
                f"{SIGN}pset knows no {name or 'setting'}",
                hint="The settings are pager on|off and null TEXT.",
            )


def _quit(_: Session, __: str) -> None:
    raise EOFError


def _help(session: Session, _: str) -> None:
    rows = [(f"{SIGN}{name} {meta.takes}".rstrip(), meta.help) for name, meta in META.items()]
    width = max(len(usage) for usage, _ in rows)
    for usage, text in rows:
        session.print(f"{usage.ljust(width)}  {text}")
    session.print("A statement ends with a semicolon; Ctrl-C cancels it, Ctrl-D or quit exits.")


META = {
    "d": Meta("[table]", "columns of a table, or all tables", _describe),
    "dt": Meta("[schema]", "tables", _tables),
    "dn": Meta("[catalog]", "schemas", _schemas),
    "l": Meta("", "catalogs", _catalogs),
    "df": Meta("[pattern]", "functions", _functions),
    "x": Meta("[on|off]", "rows one below the other", _expanded),
    "timing": Meta("[on|off]", "how long each statement takes", _timing),
    "receipt": Meta("", "what the last result reflects: seam, engine, boundary", _receipt),
    "token": Meta("[use|token]", "the last token; with use, read the same rows next", _token),
    "explain": Meta(
        "[statement]", "how a statement would be run; by default the last one", _explain
    ),
    "g": Meta("", "run the last statement again", _again),
    "e": Meta("[statement]", "edit the last statement in EDITOR, and run it", _edit),
    "watch": Meta("[seconds]", "repeat the last statement", _watch),
    "i": Meta("file", "run the commands in a file", _include),
    "o": Meta("[file]", "append results to a file; without one, show them", _output),
    "format": Meta("name", ", ".join(WRITERS), _format),
    "pset": Meta("pager|null value", "the pager, the text of a null", _set),
    "q": Meta("", "leave", _quit),
    "?": Meta("", "this list", _help),
}
"""The meta commands, by name."""

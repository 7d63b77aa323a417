"""The prompt: a multi-line editor with colours, completion and a history.

This is the only module that needs prompt_toolkit, which the extra `cli` installs. The history is a
file under XDG_STATE_HOME that only its owner can read.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from seamline.dbapi.connection import Connection
from seamline.shell.completing import KEYWORDS, candidates
from seamline.shell.meta import SIGN, meta_of
from seamline.shell.names import Names
from seamline.shell.session import Session
from seamline.shell.state import State
from seamline.terminal.lexis import is_complete, tokens

PROMPT = "seamline> "
_CONTINUED = "       -> "
_STYLE = Style.from_dict(
    {
        "keyword": "ansiblue bold",
        "string": "ansigreen",
        "open": "ansigreen",
        "number": "ansicyan",
        "comment": "ansibrightblack italic",
        "meta": "ansimagenta",
    }
)


def converse(connection: Connection, state: State, where: str) -> None:
    """Prompts for statements until the user leaves.

    Args:
        connection: The connection to the gateway.
        state: The initial settings.
        where: A description of the gateway, for the greeting.

    Raises:
        Error: the gateway does not answer, or refuses access.
    """
    with connection.cursor() as cursor:
        cursor.execute("SHOW CATALOGS")
    names = Names(connection.again)
    session = Session(connection, state, names.forget)
    prompt: PromptSession[str] = PromptSession(
        PROMPT,
        history=FileHistory(str(history_file(os.environ))),
        multiline=Condition(lambda: not is_whole(get_app().current_buffer.text)),
        prompt_continuation=_CONTINUED,
        completer=SqlCompleter(names),
        complete_while_typing=False,
        complete_in_thread=True,
        lexer=SqlLexer(),
        style=_STYLE,
    )
    click.echo(f"{where}: statements end with ;, help lists what else there is")
    unfinished = ""
    while True:
        try:
            unfinished, text = parted(prompt.prompt(default=unfinished))
            session.take(text)
        except KeyboardInterrupt:
            unfinished = ""
        except EOFError:
            return


def is_whole(text: str) -> bool:
    """Whether Enter submits the input rather than starting a new line."""
    return bool(meta_of(text)) or bool(parted(text)[0]) or is_complete(text)


def parted(text: str) -> tuple[str, str]:
    """Splits the input into an unfinished statement, if any, and what to execute now.

    A meta command on a line of its own below an unfinished statement leaves the statement to be
    continued.
    """
    above, _, line = text.rpartition("\n")
    if not line.startswith(SIGN) or text.lstrip().startswith(SIGN) or is_complete(above):
        return "", text
    if any(token.kind == "open" for token in tokens(f"{above}\n")):
        return "", text  # within a string or a comment
    return f"{above}\n", line


def history_file(environment: Mapping[str, str]) -> pathlib.Path:
    """Returns the history file, created so that only its owner can read it."""
    state = environment.get("XDG_STATE_HOME") or "~/.local/state"
    file = pathlib.Path(state).expanduser() / "seamline" / "history"
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(file, os.O_CREAT | os.O_APPEND, 0o600))
    file.chmod(0o600)
    return file


class SqlCompleter(Completer):
    """Adapts `candidates` to the line editor."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - prompt_toolkit's signature
    ) -> Iterable[Completion]:
        """See `candidates`."""
        length, matches = candidates(
            document.text_before_cursor, document.text_after_cursor, self._names
        )
        for each in matches:
            yield Completion(each.text, start_position=-length, display_meta=each.kind)


class SqlLexer(Lexer):
    """Highlights SQL."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Returns a function from a line number to that line's pieces with their styles."""
        lines = coloured(document.text)
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str) -> list[StyleAndTextTuples]:
    """Returns the lines of a text, each as pieces with their styles."""
    if text.lstrip().startswith(SIGN):
        return [[("class:meta", line)] for line in text.split("\n")]
    lines: list[StyleAndTextTuples] = [[]]
    for token in tokens(text):
        kind = "keyword" if token.text.upper() in _KEYWORDS else token.kind
        style = f"class:{kind}" if kind in _COLOURED else ""
        first, *more = token.text.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, line)] for line in more)
    return lines


_KEYWORDS = frozenset(KEYWORDS)
_COLOURED = frozenset({"keyword", "string", "open", "number", "comment"})

"""Goal: a command that a page names can be typed as it is written there.

Method: each `seamline …` of the pages, in blocks and in sentences, is looked up among the commands
and their options, and each value is converted as the command would convert it. Nothing is run.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from seamline.cli import root

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
WRITTEN = re.compile(r"`(seamline [^`\n]+)`|^(?:\$ )?(seamline .+)$", re.MULTILINE)
AT_THE_PROMPT = "query"
"""The command that options without a command belong to."""


def words_of(text: str) -> list[str]:
    """Returns the words of a command, up to where another begins, or its first open quote."""
    split = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    split.whitespace_split = True
    found: list[str] = []
    with contextlib.suppress(ValueError):  # a statement over several lines
        for word in split:
            if not word.strip("|&;<>"):
                break
            found.append(word)
    return found


def problems(text: str) -> Iterator[str]:
    """Yields what is wrong with a command."""
    words = words_of(text)[1:]
    command: click.Command = root
    context = click.Context(root)
    if words[:1] and words[0].startswith("-") and words[0] not in {"--help", "--version"}:
        words.insert(0, AT_THE_PROMPT)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        if found is None:
            if not words[0].startswith("-"):
                yield f"{words[0]} is not a command"
            return
        command = found
        words.pop(0)
    options = {o: p for p in command.params for o in (*p.opts, *p.secondary_opts)}
    for index, word in enumerate(words):
        if not re.match(r"--?[a-z]", word) or word == "--help":
            continue
        option = options.get(word.partition("=")[0])
        if option is None:
            yield f"{word} is not an option of it"
        elif isinstance(option, click.Option) and not option.is_flag and "=" not in word:
            yield from _misfit(option, words[index + 1 : index + 2])


def _misfit(option: click.Option, values: list[str]) -> Iterator[str]:
    for value in values:
        if not value.isupper() and value != "…":  # a word in capitals stands for a value
            try:
                option.type.convert(value, option, None)
            except click.BadParameter as error:
                yield error.message


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: pathlib.Path) -> None:
    if page.name == "CHANGELOG.md":  # of versions that have been
        return
    text = page.read_text(encoding="utf-8")
    found = [first or second for first, second in WRITTEN.findall(text)]
    wrong = {command: [*problems(command)] for command in found}
    assert {command: said for command, said in wrong.items() if said} == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "seamline tabel list",
        "seamline table lists",
        "seamline table maintain bids --expire-older-than 7w",
        "seamline table create bids --topics bids",
        "seamline --embeded",
        "seamline query 'a | b' --format xls",
    ],
)
def test_a_command_that_there_is_not_is_found(wrong: str) -> None:
    assert [*problems(wrong)]

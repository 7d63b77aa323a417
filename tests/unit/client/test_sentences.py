"""Goal: no frame of Java, no object of urllib3 and no number of an error's author reaches a person.

Method: failures of Spark, py4j, requests, PyIceberg, Kafka's client, Arrow, DuckDB and others, as
they are met, and the sentences they become. Then every one of them is put around each other, as
libraries wrap what others raise, and searched for what must not be left.
"""

from __future__ import annotations

import pathlib
import re

import pytest

from seamline.errors import INTERNAL_ERROR, SeamlineError
from seamline.errors.sentences import sentence

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "sentences.txt"
_CASE = re.compile(r"^== (.*)\n((?:.*\n)*?)----\n((?:.*\n)*?)(?=\n==|\n?\Z)", re.MULTILINE)
LEFT_OVER = re.compile(
    r"\bat [\w.$/]+\(\w+\.(?:java|scala):\d+\)|calling o\d+\.|: java\.|Caused by|0x[0-9a-f]{4}|"
    r"ConnectionPool\(|Traceback|\[Errno|KafkaError\{|StatusCode\.|\[SQL:|errors\.pydantic|"
    r"Stack Trace|stacktrace|_ssl\.c|in state [A-Z]|^\s*at |more\s*$"
)


def cases() -> list[tuple[str, str, str]]:
    text = GOLDEN.read_text(encoding="utf-8")
    return [(m[1], m[2].removesuffix("\n"), m[3].strip()) for m in _CASE.finditer(text)]


def test_what_libraries_say_becomes_a_sentence(rewrite: bool) -> None:
    found = cases()
    assert len(found) >= 45
    if rewrite:
        head = GOLDEN.read_text(encoding="utf-8").partition("\n== ")[0]
        parts = [f"\n== {name}\n{text}\n----\n{sentence(text)}\n" for name, text, _ in found]
        GOLDEN.write_text(head + "".join(parts), encoding="utf-8")
        return
    assert {name: sentence(text) for name, text, _ in found} == {n: s for n, _, s in found}


@pytest.mark.parametrize("wrapper", [
    "{}",
    "loading table lake.default.t: {}",
    "An error occurred while calling o1.load.\n: java.lang.RuntimeException: {}\n"
    "\tat org.example.Reader.read(Reader.java:7)",
    "org.apache.spark.SparkException: Job aborted. Caused by: java.io.IOException: {}",
])  # fmt: skip
def test_nothing_of_it_is_left_however_it_is_wrapped(wrapper: str) -> None:
    for name, text, _ in cases():
        found = SeamlineError(INTERNAL_ERROR, wrapper.replace("{}", text)).message
        assert found, name
        assert LEFT_OVER.search(found) is None, f"{name}: {found}"


def test_a_sentence_stays_one() -> None:
    for name, text, _ in cases():
        assert sentence(sentence(text)) == sentence(text), name


def test_our_own_messages_stay_as_they_are() -> None:
    for name, text, said in cases():
        if name.startswith("ours: "):
            assert said == text

"""Goal: what says how records are encoded has one text, which says all of it and is read again.

Method: examples of entries in every form people write; any names and sources, there and back; and
tables of before, whose text must not change.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.errors import SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import (
    LOG_PARTS,
    ColumnSource,
    Encoding,
    Source,
    parse,
    parse_sources,
    spelt_as,
)
from seamline.seam.records import DecoderSpec, column_of
from seamline.sql import columns
from seamline.sql.types import BIGINT, INTEGER, VARCHAR, Field, Row

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
SOURCES = st.one_of(
    st.builds(Source, st.sampled_from(["value", "key"]), st.lists(NAMES, max_size=3).map(tuple)),
    st.builds(Source, st.just("header"), st.tuples(NAMES)),
    st.sampled_from(LOG_PARTS).map(Source),
)


@given(st.lists(st.tuples(NAMES, SOURCES), unique_by=lambda entry: entry[0]))
def test_any_sources_are_read_again(entries: list[tuple[str, Source]]) -> None:
    sources = tuple(ColumnSource((name, "inner"), source) for name, source in entries)
    assert parse_sources([", ".join(map(str, sources))]) == sources
    encoding = Encoding("json", "int64", sources)
    again = parse(str(encoding))
    assert again.sources == sources
    assert str(again) == str(encoding)
    binding = TopicBinding("default", "t", "json", columns_from=tuple(map(str, sources)))
    assert TopicBinding.from_properties(binding.to_properties()) == binding


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("id=key", ["id = key"]),
        (" id = KEY , trace= header.trace-id ", ["id = key", "trace = header.trace-id"]),
        ('"a b".c = value.after.id', ['"a b".c = value.after.id']),
        ("t = header.a.b", ['t = header."a.b"']),
        ('t = header."a,b"', ['t = header."a,b"']),
        ("redpanda.offset = offset,at = timestamp", ["redpanda.offset = offset", "at = timestamp"]),
        ("$$raw-key = key", ["$$raw-key = key"]),
    ],
)
def test_entries_have_one_form(text: str, canonical: list[str]) -> None:
    assert [str(entry) for entry in parse_sources([text])] == canonical


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "= key",
        "id = ",
        "id = nothing",
        "id = header",
        "id = offset.x",
        "id = key, id = value.id",
        "id = key, id.part = offset",
        "a = key b = key",
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        parse_sources([text])
    assert caught.value.code.name == "INVALID_TABLE_DEFINITION"


def test_tables_of_before_keep_their_text() -> None:
    for name in ("json", "raw"):
        binding = TopicBinding("default", "t", name, key="id", key_format="int64")
        assert str(binding.encoding) == name
        assert DecoderSpec.of(binding, ()).format == name


def test_the_text_tells_all_that_matters() -> None:
    texts = {
        str(TopicBinding("c", "t", columns_from=sources, key_format=key).encoding)
        for sources in ((), ("a = key",), ("a = offset",))
        for key in ("string", "int64")
    }
    assert len(texts) == 4, "the format of keys matters where a column comes from them"


def test_columns_are_spelt_as_the_table_spells_them() -> None:
    fields = (Field("Id", BIGINT), Field("r", Row((Field("Off", BIGINT),))))
    entries = spelt_as(parse_sources(["id = key, R.off = offset"]), fields)
    assert [str(entry) for entry in entries] == ["Id = key", "r.Off = offset"]
    for unknown in ("x = key", "id.off = key", "r.x = key"):
        with pytest.raises(SeamlineError):
            spelt_as(parse_sources([unknown]), fields)


def test_every_table_has_one_column_of_the_offset() -> None:
    own = (Field("a", VARCHAR), *columns.METADATA_FIELDS)
    assert column_of("offset", Encoding(), own) == (columns.OFFSET,)
    assert column_of("offset", Encoding(), own[:1]) is None
    row = Field("redpanda", Row((Field("offset", BIGINT), Field("partition", INTEGER))))
    named = Encoding(
        sources=parse_sources(["redpanda.offset = offset, redpanda.partition = partition"])
    )
    assert column_of("offset", named, (*own, row)) == ("redpanda", "offset")
    assert column_of("partition", named, (row,)) == ("redpanda", "partition")
    assert column_of("timestamp", named, (row,)) is None

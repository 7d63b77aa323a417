"""The options of a unified table: each is declared here, and nowhere else.

A line of `TableOptions`, `CreateOptions` or `AdoptOptions` gives an option's name, type and
default, and in its `Option` what else there is to say of it. The classes have typed attributes for
the code that uses an option. `OPTIONS` and `ADOPT_OPTIONS` are the same as tables, from which
follow the properties that statements and the flags that commands accept,
`system.metadata.table_properties`, and the table in the docs.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import KEY, VALUE, DeleteMark, LatestSchema, parse_sources
from seamline.seam.log import ISOLATIONS, READ_COMMITTED

MODES = ("append", "upsert", "changelog")
"""What a record means to its table.

`append`: a row of its own. `upsert`: the newest state of its key. `changelog`: a change to that
state, wrapped in an envelope.
"""
POLICIES = ("fail", "null", "skip")
"""The ways to handle a bad record."""
AUTO, MANUAL = "auto", "manual"
EVOLUTIONS = (AUTO, MANUAL)
"""Who changes the columns when records have a different schema: tiering, or only the owner."""
FORMATS, PARTITIONERS = "formats", "partitioners"
"""Sets of words that other folders define."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a command, `seamline table create`, `adopt` or `alter`, that sets an option.

    Attributes:
        help: Its help; by default the option's description.
        name: Its name without dashes; by default the option's.
        metavar: The name of its value in the help.
        required: Whether it must be given.
    """

    help: str = ""
    name: str = ""
    metavar: str | None = None
    required: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """An option of a unified table.

    Attributes:
        description: What it is, in one line without a period.
        more: What the docs add to that, in Markdown.
        default_text: What the docs say of a default that is not a constant.
        words: Its values, if they are a closed set.
        words_of: The set that its values are from, if another folder defines it.
        create: Its flag when a table is created.
        adopt: Its flag when a table is adopted, that of `create` if empty; None if it cannot be set
            then.
        alter: Its flag when a table is altered; None if it cannot be changed.
        is_plain: Whether tables without a topic have it, too.
        is_text: Whether flags accept `@FILE`.
        parse: Parses the text of a table property. Raises a ValueError that names what is expected.
        write: The inverse of `parse`.
        name: Its name in statements.
        type: `str`, `int`, `bool` or `tuple`, which is of strings.
        default: Its default; None if it has none.
        is_stored: Whether the table's properties record it, as part of its binding to the topic.
    """

    description: str
    more: str = ""
    default_text: str = ""
    words: tuple[Any, ...] = ()
    words_of: str = ""
    create: Flag = Flag()
    adopt: Flag | None = None
    alter: Flag | None = None
    is_plain: bool = False
    is_text: bool = False
    parse: Callable[[str], Any] | None = None
    write: Callable[[Any], str] | None = None
    name: str = ""
    type: type = str
    default: Any = None
    is_stored: bool = True

    def value(self, given: object) -> Any:
        """Returns the value that a statement's WITH gives.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION for a value of another type.
        """
        if self.type is tuple:
            return texts(self.name, given)
        if self.type is bool:
            return str(given).lower() == "true"
        if self.type is int:
            if not isinstance(given, int) or isinstance(given, bool):
                raise _not_a(self.name, "a whole number")
            return given
        if isinstance(given, tuple | bool):
            raise _not_a(self.name, "a string")
        return str(given)

    def read(self, text: str) -> Any:
        """Returns the value that a table property holds.

        Raises:
            ValueError: what is expected instead.
            SeamlineError: INVALID_TABLE_DEFINITION.
        """
        if self.parse is not None:
            return self.parse(text)
        if self.words and text not in map(str, self.words):
            raise ValueError(f"one of {', '.join(map(str, self.words))}")
        if self.type is tuple:
            return tuple(filter(None, map(str.strip, text.split(","))))
        return whole_number(text) if self.type is int else text

    def text(self, value: Any) -> str:
        """Returns a value as a table property holds it."""
        if self.write is not None:
            return self.write(value)
        return ", ".join(value) if self.type is tuple else str(value)


def texts(name: str, given: object) -> tuple[str, ...]:
    """Returns a value that is a string or an array of strings.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    items = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(item, str) for item in items):
        raise _not_a(name, "an array of strings")
    return items


def whole_number(text: str) -> int:
    """Parses a number without a sign; raises a ValueError that says so."""
    if not text.isdecimal():
        raise ValueError("a whole number")
    return int(text)


def _not_a(name: str, expected: str) -> SeamlineError:
    return SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be {expected}")


def _topic(text: str) -> str:
    if not text:
        raise ValueError("the name of a topic")
    return text


def _sources(text: str) -> tuple[str, ...]:
    return tuple(map(str, parse_sources([text])))


def _mark(text: str) -> str:
    return str(DeleteMark.parse(text))


def _names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("a JSON array of names")
    return tuple(names)


@dataclasses.dataclass(frozen=True, slots=True)
class TableOptions:
    """The options that a table's properties record."""

    cluster: Annotated[
        str,
        Option(
            "The cluster of the topic, as configured",
            default_text="the default one",
            create=Flag("Cluster the topic is in."),
            adopt=Flag(),
        ),
    ]
    topic: Annotated[
        str,
        Option(
            "The topic that the table combines with its Iceberg copy",
            create=Flag("Name of the topic.", required=True),
            adopt=Flag("Topic that the writer copies into the table.", required=True),
            parse=_topic,
        ),
    ]
    format: Annotated[
        str,
        Option(
            "How the values of records are encoded",
            more="See [below](#formats)",
            words_of=FORMATS,
            adopt=Flag(),
        ),
    ] = "json"
    mode: Annotated[
        str,
        Option(
            "Whether records add rows, or change those of their keys",
            more="With `append` every record is a row. With `upsert` the table holds the newest "
            "record of each key; with `changelog` records describe how rows changed: "
            "[upsert tables](upserts.md)",
            words=MODES,
        ),
    ] = "append"
    on_error: Annotated[
        str,
        Option(
            "What becomes of a record that cannot be decoded",
            more="`fail`: an error that names partition, offset and reason. `null`: a row of nulls "
            "with `_kafka_error`. `skip`: no row, and it is counted in the receipt. Hot and cold "
            "data behave the same",
            words=POLICIES,
            parse=str,  # checked where records are decoded, so that ALTER TABLE can correct it
            create=Flag("fail, null or skip."),
            adopt=Flag(),
            alter=Flag("What happens to bad records."),
        ),
    ] = "fail"
    dead_letter_topic: Annotated[
        str | None,
        Option(
            "The topic that tiering writes bad records to",
            more="With `on_error` `null` or `skip`: see [bad records](#bad-records)",
            create=Flag("Topic that tiering writes bad records to."),
            alter=Flag("Topic that tiering writes bad records to."),
        ),
    ] = None
    isolation: Annotated[
        str,
        Option(
            "The isolation level the log is read with",
            more="Or `read_uncommitted`",
            words=ISOLATIONS,
            adopt=Flag(),
        ),
    ] = READ_COMMITTED
    key: Annotated[
        str | None,
        Option(
            "The column that the key of a record repeats",
            create=Flag("Column whose value is also the record key."),
        ),
    ] = None
    key_format: Annotated[
        str,
        Option(
            "How the keys of records are encoded",
            more="A [format](#formats)",
            words_of=FORMATS,
            adopt=Flag(),
        ),
    ] = "string"
    columns_from: Annotated[
        tuple[str, ...],
        Option(
            "Where in a record columns come from: column = source",
            more="By default from the value's field of the same name, see "
            "[below](#columns-from-every-part-of-a-record)",
            create=Flag("Sources of columns, such as 'id = key, trace = header.trace-id'."),
            adopt=Flag("Other sources of columns, such as 'id = key'.", "map", "'COLUMN = SOURCE'"),
            parse=_sources,
        ),
    ] = ()
    value_schema: Annotated[
        str | None,
        Option(
            "The schema of all values",
            more="For values that do not name a schema in a registry; on the command line, "
            "`@FILE`. With `latest` it is the newest version of the topic's subject, see "
            "[below](#one-schema-of-all-records)",
            create=Flag("Schema of all values, @FILE, or latest; by default each value's own."),
            adopt=Flag(),
            is_text=True,
        ),
    ] = None
    key_schema: Annotated[
        str | None,
        Option(
            "The schema of all keys",
            more="As for values",
            create=Flag("Schema of all keys, @FILE, or latest; by default each key's own."),
            adopt=Flag(),
            is_text=True,
        ),
    ] = None
    spellings: Annotated[
        tuple[str, ...],
        Option(
            "Further ways of writing values that are accepted",
            more="See [below](#formats)",
            create=Flag("Accept this spelling of values; repeatable.", "spelling"),
            adopt=Flag(),
            alter=Flag(
                "Accept this spelling of values, in place of those accepted until now; repeatable.",
                "spelling",
            ),
        ),
    ] = ()
    csv_separator: Annotated[
        str | None,
        Option(
            "The separator between CSV fields",
            default_text="a comma",
            create=Flag("Field separator of CSV; by default a comma."),
            adopt=Flag(),
        ),
    ] = None
    csv_quote: Annotated[
        str | None,
        Option(
            "The quote character of CSV fields",
            default_text="a double quote",
            create=Flag("Quote character of CSV; by default a double quote."),
            adopt=Flag(),
        ),
    ] = None
    evolution: Annotated[
        str | None,
        Option(
            "Whether columns follow the schemas of records",
            more="`auto` or `manual`, see [newer schemas](#schemas-that-change)",
            default_text="see below",
            words=EVOLUTIONS,
            create=Flag(
                "Whether columns follow newer schemas; by default auto with --infer, else manual."
            ),
            alter=Flag("Whether columns follow newer schemas."),
        ),
    ] = None
    key_partitioner: Annotated[
        str | None,
        Option(
            "The function of a key that selects its partition",
            more="The owner's guarantee that every record lies in the partition that this function "
            "of its key selects: `murmur2` (Java's, or librdkafka's of that name) or `crc32` "
            "(librdkafka's default; records with an empty key may be anywhere). A filter on the "
            "key then reads one partition, if its format has [one way to write a value](#columns)",
            words_of=PARTITIONERS,
            create=Flag("Promise that keys are partitioned by murmur2 or crc32."),
        ),
    ] = None
    primary_key: Annotated[
        tuple[str, ...],
        Option(
            "The key columns of an upsert table",
            create=Flag("Primary key column of an upsert table; repeatable."),
            parse=_names,
            write=json.dumps,
        ),
    ] = ()
    envelope: Annotated[
        str,
        Option(
            "The envelope of captured changes",
            more="`debezium`, `maxwell`, `canal`, `debezium_mongodb`, `mongodb`, `dms`, "
            "`goldengate`, `qlik` or `qlik_data`, see [change streams](upserts.md#change-streams)",
            create=Flag("Envelope of change records, such as debezium, maxwell, canal or mongodb."),
        ),
    ] = ""
    deleted_by: Annotated[
        str | None,
        Option(
            "The field that marks deletes in an upsert table",
            more="`__deleted`, or `op = d`, see "
            "[upsert tables](upserts.md#deletes-that-a-field-marks)",
            create=Flag("Field that marks deletes, such as __deleted or 'op = d'; '' for none."),
            parse=_mark,
        ),
    ] = None

    @property
    def schemas(self) -> dict[str, str]:
        """The schemas that the table itself specifies, by part of the record.

        Those that follow a subject state which.
        """
        both = {VALUE: self.value_schema, KEY: self.key_schema}
        return {part: self._named(part, text) for part, text in both.items() if text is not None}

    def _named(self, part: str, text: str) -> str:
        latest = LatestSchema.parse(text)
        if latest is None or latest.subject or latest.schema_id is not None:
            return text
        return str(dataclasses.replace(latest, subject=f"{self.topic}-{part}"))

    def stored(self) -> dict[str, Any]:
        """Returns the options that a table's properties record, by name."""
        return {option.name: getattr(self, option.name) for option in OPTIONS if option.is_stored}


@dataclasses.dataclass(frozen=True, slots=True)
class CreateOptions(TableOptions):
    """The options of a table that is created; the further ones are not recorded as such."""

    partitioning: Annotated[
        tuple[str, ...],
        Option(
            "How files are partitioned",
            more="By Iceberg's partition transforms",
            create=Flag("Partitioning, such as 'day(ts)'.", "partition-by"),
            is_plain=True,
        ),
    ] = ()
    sorted_by: Annotated[
        tuple[str, ...],
        Option(
            "How rows are sorted in files",
            create=Flag("Sort column, such as 'ts DESC'.", "sort-by"),
            is_plain=True,
        ),
    ] = ()
    start: Annotated[
        str,
        Option(
            "Where in the topic the table begins",
            more="`earliest`, `latest`, offsets such as `0:100,1:250`, or a time",
            create=Flag("earliest, latest, offsets or a time."),
        ),
    ] = "earliest"
    format_version: Annotated[
        int,
        Option("The version of Iceberg's table format", more="2 or 3", words=(2, 3), is_plain=True),
    ] = 2


@dataclasses.dataclass(frozen=True, slots=True)
class AdoptOptions(TableOptions):
    """The options of a table that is adopted; the further ones are not recorded as such."""

    boundary: Annotated[
        str | None,
        Option("What determines the table's boundary", adopt=Flag(metavar="PROVIDER")),
    ] = None
    columns: Annotated[
        tuple[str, ...],
        Option(
            "Columns that hold partition, offset, …: offset=k_offset",
            adopt=Flag(metavar="PART=COLUMN,…"),
        ),
    ] = ()
    boundary_options: Annotated[
        tuple[str, ...],
        Option(
            "Options of the provider",
            adopt=Flag("Option of the provider; repeatable.", "option", "NAME=VALUE"),
        ),
    ] = ()
    start: Annotated[
        str,
        Option(
            "Where the table begins; by default, offset 0",
            adopt=Flag(metavar="PARTITION:OFFSET,…"),
        ),
    ] = ""
    force: Annotated[bool, Option("Adopt the table despite the problems found", adopt=Flag())] = (
        False
    )


def _declared(options: type[TableOptions]) -> Iterator[Option]:
    stored = {field.name for field in dataclasses.fields(TableOptions)}
    hints = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        declared, option = typing.get_args(hints[field.name])
        types = (typing.get_origin(declared), declared)
        yield dataclasses.replace(
            option,
            name=field.name,
            type=next((type_ for type_ in (tuple, int, bool) if type_ in types), str),
            default=None if field.default is dataclasses.MISSING else field.default,
            is_stored=field.name in stored,
        )


OPTIONS: tuple[Option, ...] = tuple(_declared(CreateOptions))
"""The options of a unified table that is created."""
ADOPT_OPTIONS = tuple(option for option in _declared(AdoptOptions) if option.adopt is not None)
"""Those of a table that is adopted."""

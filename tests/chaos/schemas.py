"""Records whose schema changes: the ladder of schemas that producers climb, and what they wrote.

One of the fields is a union of several types.

The ladder is a function of the seed; each step adds, widens, renames or drops a field somewhere.
Every producer climbs at its own pace, and now and then writes with a schema from before. The
independent consumer asks the registry past its proxy, and reads records as fastavro does.
"""

from __future__ import annotations

import copy
import decimal
import functools
import io
import json
import random
import struct
import time
from collections.abc import Callable
from typing import Any

import fastavro
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from support.registry import Registry
from support.schema_histories import History, Leaf, Member, Record, Several, decimals

from chaos.history import Recorder, SchemaRegistered, price_of

_FRAME = struct.Struct(">bI")
_STEP_SHARE = 0.025
_OLD_SHARE = 0.2
_AGAIN_S = 0.5
_UNION = "either"


class Ladder:
    """Schemas, each one change after the last; the first fields stay as they are.

    Args:
        seed: Of all of them.
    """

    def __init__(self, seed: int) -> None:
        steady = [
            Member([name], Leaf(kind), is_steady=True)
            for name, kind in (("id", "long"), ("text", "string"), ("price", decimals(12)))
        ]
        place = Record("Place", [Member(["at"], Leaf("double"), is_steady=True)])
        union = Several([Leaf("string"), Leaf("long"), place])
        steady.append(Member([_UNION], union, is_steady=True))
        self._history = History(seed, steady)
        self._roots = [copy.deepcopy(self._history.root)]

    def schema(self, version: int) -> str:
        """The schema of a version; the first is 0."""
        return json.dumps(self._root(version).avro(everything=False))

    def value(self, version: int, id_: int, text: str, chance: random.Random) -> dict[str, Any]:
        """The record with an id."""
        found: dict[str, Any] = self._root(version).value(chance)
        return {**found, "id": id_, "text": text, "price": price_of(id_)}

    def _root(self, version: int) -> Any:
        while len(self._roots) <= version:
            self._history.step()
            self._roots.append(copy.deepcopy(self._history.root))
        return self._roots[version]


class Climber:
    """Makes values, mostly with the newest schema that it knows, which it registers first.

    Args:
        url: The registry.
        topic: The topic.
        seed: Of the ladder.
        chance: Of its choices.
    """

    def __init__(self, url: str, topic: str, seed: int, chance: random.Random) -> None:
        self._ladder = Ladder(seed)
        self._client = SchemaRegistryClient({"url": url})
        self._context = SerializationContext(topic, MessageField.VALUE)
        self._chance = chance
        self._newest = max(0, self._registered(f"{topic}-value") - 1)

    def value(self, id_: int, text: str) -> bytes:
        """The value of the record with an id."""
        chance = self._chance
        self._newest += chance.random() < _STEP_SHARE
        is_old = chance.random() < _OLD_SHARE
        version = chance.randint(0, self._newest) if is_old else self._newest
        body = self._ladder.value(version, id_, text, chance)
        written: bytes = _patiently(lambda: self._serializer(version)(body, self._context))
        return written

    @functools.cache  # noqa: B019 - one a process
    def _serializer(self, version: int) -> AvroSerializer:
        return AvroSerializer(self._client, self._ladder.schema(version))

    def _registered(self, subject: str) -> int:
        subjects = _patiently(self._client.get_subjects)
        return (
            len(_patiently(lambda: self._client.get_versions(subject)))
            if subject in subjects
            else 0
        )


def _patiently(ask: Callable[[], Any]) -> Any:
    """What needs the registry, as soon as it answers."""
    while True:
        try:
            return ask()
        except SchemaRegistryError:
            time.sleep(_AGAIN_S)


class NotedRegistry(Registry):
    """A registry that records what is registered.

    Args:
        recorder: Takes it.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def register(self, subject: str, text: str, *more: Any) -> int:
        """See `Registry.register`."""
        schema_id = super().register(subject, text, *more)
        self._recorder.record(SchemaRegistered(subject, schema_id, text, time.monotonic()))
        return schema_id


def reader_of(registry: Registry) -> Callable[[bytes], dict[str, Any]]:
    """Reads values as they were written, in JSON's terms; ValueError for anything else."""

    @functools.cache
    def schema(schema_id: int) -> Any:
        found = registry.answer("GET", f"/schemas/ids/{schema_id}", None)
        if found is None:
            raise ValueError(f"schema {schema_id} was never registered")
        return fastavro.parse_schema(json.loads(found["schema"]))

    def read(value: bytes) -> dict[str, Any]:
        _, schema_id = _FRAME.unpack_from(value)
        stream = io.BytesIO(value[_FRAME.size :])
        body: dict[str, Any] = shown(fastavro.schemaless_reader(stream, schema(schema_id), None))
        return {**body, _UNION: _by_type(body[_UNION])} if _UNION in body else body

    return read


def _by_type(value: Any) -> Any:
    """A value of the union as the row that it is in a table, with a field per type."""
    if value is None:
        return None
    types = {"string": str, "long": int, "Place": dict}
    return {name: value if isinstance(value, type_) else None for name, type_ in types.items()}


def shown(value: Any) -> Any:
    """A value of any of the libraries, in JSON's terms; a map is an object.

    An empty map and an empty list are the same: not every library distinguishes them.
    """
    match value:
        case decimal.Decimal():
            return str(value)
        case dict():
            return {name: shown(item) for name, item in value.items()} or []
        case list() if value and all(isinstance(item, tuple) for item in value):
            return {key: shown(item) for key, item in value}
        case list():
            return [shown(item) for item in value]
    return value

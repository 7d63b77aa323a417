"""Schemas of records: where they are registered, and how they are looked up.

Most registries speak Confluent's API, as Apicurio and Karapace also do; `registries` has the
others. An id stands for the same
schema forever, so each process requests it once; a known schema is used whether or not the registry
answers. An id that the registry does not know makes every record with it bad, and is requested
again a little later.

Nobody waits for an answer longer than their deadline or ten seconds. Requests run in the
background. One request serves all who wait for the same answer, and a late answer is remembered.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import dataclasses
import itertools
import json
import math
import threading
import time
import urllib.parse
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from seamline.connectors import supervision
from seamline.connectors.dependencies import Dependency, again, letting_others_run
from seamline.connectors.kafka.formats import confluent
from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.logins import LoginError, Token, TokenSource, token_source
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.errors import SCHEMA_REGISTRY_UNAVAILABLE, SeamlineError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from seamline.connectors.config import SchemaRegistryConfig

Earlier: TypeAlias = "Callable[[], Sequence[Schema]]"
"""Returns the versions before a schema, newest first."""
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
    """A schema, with those that it refers to.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        text: The schema as it was registered.
        references: What it refers to, by the names it uses, each before whatever refers to it.
    """

    kind: str
    text: str
    references: tuple[tuple[str, Schema], ...] = ()


class Schemas(Protocol):
    """Looks up schemas."""

    @property
    def framing(self) -> Framing:
        """How the registry's serializers name the schema of a part."""

    def by_id(self, schema_id: SchemaId) -> Schema:
        """Returns the schema that an id stands for.

        Raises:
            ValueError: there is none.
            SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE; DEADLINE_EXCEEDED or CANCELED.
        """

    def latest(self, subject: str, age_s_max: float = 0.0) -> tuple[SchemaId, Schema] | None:
        """Returns a subject's newest schema, preceded by its id; None if there is no such subject.

        Args:
            subject: The subject.
            age_s_max: How many seconds ago it may have been the newest. If the registry then does
                not answer, what it last answered is returned.

        Raises:
            SeamlineError: as `by_id`.
        """

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        """Returns the versions before a schema in the subjects that have it, newest first.

        Deleted versions are included. There are none if the registry does not report versions.

        Raises:
            SeamlineError: as `by_id`.
        """

    def within(self, deadline: Deadline) -> Schemas:
        """Returns the same schemas, but waits for answers only until a statement's deadline."""


@runtime_checkable
class HasSchemas(Protocol):
    """A log that knows where the schemas of its records are."""

    @property
    def schemas(self) -> Schemas:
        """The schemas of its records."""


class NoRegistry:
    """Stands in for the registry of a cluster that has none."""

    @property
    def framing(self) -> Framing:
        """See `Schemas.framing`: a part that any registry's serializers wrote needs a registry."""
        from seamline.connectors.kafka.formats import registries  # of which this is none

        return registries.ANY

    def by_id(self, schema_id: SchemaId) -> Schema:
        """See `Schemas.by_id`."""
        raise SeamlineError(
            SCHEMA_REGISTRY_UNAVAILABLE,
            f"schema {schema_id} cannot be looked up: the cluster has no schema registry",
            hint="Add schema_registry to the cluster in the configuration.",
        )

    def latest(
        self,
        subject: str,
        age_s_max: float = 0.0,  # noqa: ARG002
    ) -> tuple[SchemaId, Schema] | None:
        """See `Schemas.latest`."""
        raise SeamlineError(
            SCHEMA_REGISTRY_UNAVAILABLE,
            f"the schema of {subject} cannot be looked up: the cluster has no schema registry",
            hint="Add schema_registry to the cluster in the configuration.",
        )

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:  # noqa: ARG002 - there are none
        """See `Schemas.earlier`."""
        return ()

    def within(self, deadline: Deadline) -> Schemas:  # noqa: ARG002 - nothing is waited for
        """See `Schemas.within`."""
        return self


def schemas_of(log: object, deadline: Deadline) -> Schemas:
    """Returns the schemas of a log's records, with lookups that end at the deadline."""
    return log.schemas.within(deadline) if isinstance(log, HasSchemas) else NoRegistry()


_CONNECT_S, _READ_S = 3.0, 10.0
_WAIT_S = 10.0
"""How long to wait for an answer, including redirects and retries."""
_PASSING = (429, 500, 502, 503, 504)
_UNKNOWN_S = 10.0
"""How long before what the registry did not know, or did not answer, is requested again."""


class SchemaRegistry:
    """A registry that speaks Confluent's API. Safe to share between threads.

    Attributes:
        framing: How its serializers name the schema of a part.
        dependency: What requests to it are calls to.

    Args:
        config: Where it is.
        tokens: The tokens of its login; by default, those that the login makes.
    """

    framing = confluent.FRAMING

    def __init__(self, config: SchemaRegistryConfig, tokens: TokenSource | None = None) -> None:
        self._url = config.address
        self._headers = _headers(config)
        self._login = config.login
        self._tokens = tokens or (token_source(config.login) if config.login else None)
        import urllib3  # Spark workers without a registry do without it

        retries = urllib3.Retry(
            total=2, backoff_factor=0.2, status_forcelist=_PASSING, raise_on_status=False
        )
        from seamline.connectors import http

        self._http = http
        self.dependency = Dependency("registry", self._url, SCHEMA_REGISTRY_UNAVAILABLE)
        self._pool = http.bounded(
            urllib3.PoolManager(
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
                retries=retries,
                headers=self._headers,
                ca_certs=config.ca or None,
                cert_file=config.certificate or None,
                key_file=config.key or None,
            )
        )
        self._deadline: Deadline = NoDeadline()
        self._known: dict[SchemaId, Schema] = {}
        self._newest: dict[str, tuple[float, tuple[SchemaId, Schema]]] = {}
        self._unknown: dict[SchemaId, tuple[float, str]] = {}
        self._earlier: dict[SchemaId, tuple[Schema, ...]] = {}
        self._asked: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def within(self, deadline: Deadline) -> Self:
        """See `Schemas.within`; both share what is known."""
        other = copy.copy(self)
        other._deadline = deadline  # noqa: SLF001 - one of our own
        return other

    def by_id(self, schema_id: SchemaId) -> Schema:
        """See `Schemas.by_id`."""
        schema = self._known.get(schema_id)
        return schema or self._answer(schema_id, lambda: self._by_id(schema_id))

    def _by_id(self, schema_id: SchemaId) -> Schema:
        until, reason = self._unknown.get(schema_id, (0.0, ""))
        if time.monotonic() < until:
            raise ValueError(reason)
        schema = self._find(schema_id)
        if schema is None:
            reason = f"schema id {schema_id} is not in the registry"
            self._unknown[schema_id] = (time.monotonic() + _UNKNOWN_S, reason)
            raise ValueError(reason)
        self._known[schema_id] = schema
        return schema

    def _find(self, schema_id: SchemaId) -> Schema | None:
        """Returns the schema of an id, or None if the registry has no such id."""
        kind = "guids" if isinstance(schema_id, str) else "ids"
        body = self._get(f"/schemas/{kind}/{schema_id}")
        return None if body is None else self._schema(body)

    def latest(self, subject: str, age_s_max: float = 0.0) -> tuple[SchemaId, Schema] | None:
        """See `Schemas.latest`."""
        until, newest = self._newest.get(subject, (-math.inf, None))
        if newest is not None and age_s_max and time.monotonic() < until:
            return newest
        try:
            newest = self._answer(("latest", subject), lambda: self._latest(subject))
        except SeamlineError as error:
            if newest is None or not age_s_max or error.code is not SCHEMA_REGISTRY_UNAVAILABLE:
                raise
            age_s_max = min(age_s_max, _UNKNOWN_S)
        if newest is not None:
            self._newest[subject] = (time.monotonic() + age_s_max, newest)
            self._known.setdefault(*newest)
        return newest

    def _latest(self, subject: str) -> tuple[SchemaId, Schema] | None:
        body = self._get(_path(subject, "latest"))
        if body is None:
            return None
        try:
            return int(body["id"]), self._schema(body)
        except (KeyError, TypeError, ValueError) as error:
            raise self._failure(f"its answer cannot be parsed: {error!r}") from error

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        """See `Schemas.earlier`."""
        schemas = self._earlier.get(schema_id)
        if schemas is None:
            schemas = self._answer(("earlier", schema_id), lambda: self._before(schema_id))
        return schemas

    def _before(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        schemas: list[Schema] = []
        numbers = [schema_id] if isinstance(schema_id, int) else self._numbers(schema_id)
        for subject, version in itertools.chain.from_iterable(map(self._places, numbers)):
            for number in range(version - 1, 0, -1):
                body = self._get(f"{_path(subject, number)}?deleted=true")
                if body is not None:
                    with contextlib.suppress(_ReferenceGoneError):  # it cannot be read any more
                        schemas.append(self._schema(body))
        self._earlier[schema_id] = tuple(schemas)
        return self._earlier[schema_id]

    def _numbers(self, guid: str) -> list[int]:
        """Returns the ids of a GUID, without those that mean another schema in this context."""
        with self._understood():
            body = self._get(f"/schemas/guids/{guid}/ids", may_lack=True)
            numbers = [int(entry["id"]) for entry in body or ()]
        return [number for number in numbers if self._is_of(number, guid)]

    def _is_of(self, number: int, guid: str) -> bool:
        try:
            one, other = (self._known.get(i) or self._by_id(i) for i in (number, guid))
        except ValueError:
            return False
        return one == other

    def _places(self, number: int) -> list[tuple[str, int]]:
        """Returns the subjects that have the schema of an id, and its version in each."""
        with self._understood():
            body = self._get(f"/schemas/ids/{number}/versions?deleted=true", may_lack=True)
            return [(str(entry["subject"]), int(entry["version"])) for entry in body or ()]

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise self._failure(f"its answer cannot be parsed: {error!r}") from error

    def _answer(self, question: Hashable, ask: Callable[[], _T]) -> _T:
        """Returns the answer to a question, which is asked only once while it is open.

        Raises:
            Exception: what asking raises; SCHEMA_REGISTRY_UNAVAILABLE or the deadline's error when
                there is no answer in time.
        """
        asked = self._ask(question, ask)
        is_over = threading.Event()
        asked.add_done_callback(lambda _: is_over.set())
        unregister = self._deadline.on_end(is_over.set)
        try:
            with letting_others_run():
                is_over.wait(min(self._deadline.remaining_s(), _WAIT_S))
        finally:
            unregister()
        if not asked.done():
            self._deadline.check()
            raise self._failure(f"it has not answered within {_WAIT_S:.0f} s")
        try:
            return asked.result()
        except _ReferenceGoneError:
            raise
        except SeamlineError as error:
            raise again(error) from error

    def _ask(self, question: Hashable, ask: Callable[[], _T]) -> Future[_T]:
        asked: Future[_T] = Future()

        def run() -> None:
            try:
                asked.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised again for those who wait
                asked.set_exception(error)
            finally:
                del self._asked[question]

        with self._lock:
            first = self._asked.setdefault(question, asked)
            if first is asked and not supervision.start("registry", run):
                del self._asked[question]
                raise self._failure("no thread could be started to query it")
        return first

    def _schema(self, body: Mapping[str, Any]) -> Schema:
        try:
            references = tuple(
                (str(entry["name"]), self._version(str(entry["subject"]), int(entry["version"])))
                for entry in body.get("references") or ()
            )
            return Schema(str(body.get("schemaType") or "AVRO"), str(body["schema"]), references)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._failure(f"its answer cannot be parsed: {error!r}") from error

    def _version(self, subject: str, version: int) -> Schema:
        body = self._get(f"{_path(subject, version)}?deleted=true")
        if body is None:
            failure = self._failure(f"version {version} of {subject} is referred to but missing")
            raise _ReferenceGoneError(failure.code, failure.message)
        return self._schema(body)

    def _get(self, path: str, *, may_lack: bool = False) -> Any:
        """Returns the answer to a request, or None if what it asks for does not exist.

        Args:
            path: What it asks for.
            may_lack: Whether some registries lack such a path.
        """
        with self.dependency.call():
            answer = self._request(path)
        if answer.status == 404 and (may_lack or _is_of_registry(answer.data)):
            return None
        if answer.status == 404:
            raise self._failure(
                f"HTTP 404 for {path}, but not in the way a registry reports what does not exist",
                "Correct the url of schema_registry, or the server that answers there: the url "
                "includes the path of Confluent's API, such as /apis/ccompat/v7.",
            )
        if answer.status != 200:
            raise self._failure(f"HTTP {answer.status}")
        try:
            return json.loads(answer.data)
        except ValueError as error:
            raise self._failure("its answer is not JSON") from error

    def _request(self, path: str) -> BaseHTTPResponse:
        """Returns the answer to a request; one whose token is refused is made again with another.

        Raises:
            SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE.
        """
        from urllib3.exceptions import HTTPError

        tokens = self._tokens
        try:
            with self._http.answered_within(_WAIT_S):
                if tokens is None:
                    return self._pool.request("GET", self._url + path)
                token = tokens.token()
                answer = self._send(path, token)
                if answer.status == 401:
                    tokens.refuse(token)
                    other = tokens.token()
                    if other is not token:
                        answer = self._send(path, other)
                return answer
        except LoginError as error:
            raise self._failure(
                f"the login {self._login.type} has no token: {error}",
                "Check that the identity provider answers, and login of schema_registry.",
            ) from error
        except (HTTPError, OSError) as error:
            raise self._failure(str(error)) from error

    def _send(self, path: str, token: Token) -> BaseHTTPResponse:
        headers = {**self._headers, "authorization": f"Bearer {token.value}"}
        return self._pool.request("GET", self._url + path, headers=headers)

    def _failure(self, problem: str, hint: str | None = None) -> SeamlineError:
        return SeamlineError(
            SCHEMA_REGISTRY_UNAVAILABLE,
            f"the schema registry {self._url}: {problem[:200]}",
            hint=hint,
        )


class _ReferenceGoneError(SeamlineError):
    """A schema refers to one that was deleted for good."""


def _is_of_registry(body: bytes) -> bool:
    """Whether a registry itself says that something does not exist: with 40403, or the like."""
    try:
        code = json.loads(body)["error_code"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return isinstance(code, int) and code // 100 == 404


def _path(subject: str, version: int | str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"


_HEADERS = {
    "logicalCluster": "target-sr-cluster",
    "identityPoolId": "Confluent-Identity-Pool-Id",
}
"""The headers of Confluent Cloud that say what is sent along to Kafka under other names."""


def _headers(config: SchemaRegistryConfig) -> dict[str, str]:
    accept = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if config.token:
        return {**accept, "authorization": f"Bearer {config.token}"}
    if config.login:
        sent_along = config.login.sent_along
        return {**accept, **{_HEADERS.get(name, name): sent_along[name] for name in sent_along}}
    username, password = config.credentials
    if username:
        basic = base64.b64encode(f"{username}:{password}".encode()).decode()
        return {**accept, "authorization": f"Basic {basic}"}
    return accept

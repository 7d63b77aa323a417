"""Operations: what a route takes is the signature of its function; it is read and checked there.

A parameter that is a `Body` is the request's JSON, a `Text` its plain text, a `Query` what stands
behind the question mark of its address, `Headers` are its headers, and all others are parts of its
path. What does not fit is INVALID_REQUEST before the function is called. `openapi` describes
operations to others.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import flask
from pydantic import BaseModel, ConfigDict, ValidationError

from seamline.errors import (
    ERRORS,
    INVALID_REQUEST,
    LOGIN_KEYS_UNAVAILABLE,
    PERMISSION_DENIED,
    REQUEST_TOO_LARGE,
    TOO_MANY_LOGINS,
    UNAUTHENTICATED,
    ErrorCode,
    ErrorKind,
    SeamlineError,
)

JSON = "application/json"
COME_AGAIN = frozenset({429, 503})
"""Statuses of what may be asked again, and when."""
REFUSALS = frozenset(
    {
        *(INVALID_REQUEST, REQUEST_TOO_LARGE),
        *(UNAUTHENTICATED, PERMISSION_DENIED, TOO_MANY_LOGINS, LOGIN_KEYS_UNAVAILABLE),
    }
)
"""What any request may be refused with before its operation is called."""
ANY = frozenset(code for code in ERRORS.values() if code.kind is not ErrorKind.INTERNAL)
"""What reading tables may end with."""


class Shape(BaseModel):
    """What JSON of ours looks like: these fields, and no others."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Given(Shape, abc.ABC):
    """What an operation is given by a request."""

    @classmethod
    def of_request(cls) -> Self:
        """That of the current request.

        Raises:
            SeamlineError: INVALID_REQUEST.
        """
        try:
            return cls.model_validate(cls._given())
        except ValidationError as error:
            raise _refused(cls, error) from error

    @classmethod
    def names(cls) -> list[str]:
        """What requests call its fields."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    @abc.abstractmethod
    def _given(cls) -> Any:
        """What the request at hand has in the place of this model."""


class Body(Given):
    """The JSON object in a request; its nulls mean what leaving them out means."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def _given(cls) -> Any:
        found = flask.request.get_json(silent=True)
        if not isinstance(found, dict):
            raise SeamlineError(
                INVALID_REQUEST,
                "the body is not a JSON object",
                hint=f"Send {{{cls._example()}}} with Content-Type: {JSON}.",
            )
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def _example(cls) -> str:
        return ", ".join(f'"{name}": …' for name in cls.names()[:1])


class Text(Given):
    """The plain text in a request; what curl sends without being told its type is that, too."""

    TYPES: ClassVar = ("application/sql", "text/plain", "application/x-www-form-urlencoded")

    @classmethod
    def _given(cls) -> Any:
        (name,) = cls.names()
        if flask.request.mimetype not in {"", *cls.TYPES}:
            raise SeamlineError(
                INVALID_REQUEST,
                f"the body is {flask.request.mimetype}, not plain text",
                hint=f"Send it with Content-Type: {cls.TYPES[0]}.",
            )
        try:
            return {name: flask.request.get_data().decode()}
        except UnicodeDecodeError as error:
            raise SeamlineError(INVALID_REQUEST, "the body is not UTF-8") from error


class Query(Given):
    """What stands behind the question mark of an address."""

    @classmethod
    def _given(cls) -> Any:
        return flask.request.args.to_dict()


class Headers(Given):
    """Headers of a request; those that are not its fields mean nothing to it."""

    @classmethod
    def _given(cls) -> Any:
        headers = flask.request.headers
        return {name: headers[name] for name in cls.names() if name in headers}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with.

    Attributes:
        what: What it is.
        content: By media type; a model of its JSON, None for what is no JSON.
    """

    what: str
    content: Mapping[str, type[BaseModel] | None] = dataclasses.field(default_factory=dict)


def json(model: type[BaseModel], what: str) -> Answer:
    """An answer of JSON."""
    return Answer(what, {JSON: model})


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """What a route is for, takes and answers.

    Attributes:
        summary: What it does.
        takes: What it is given, by the names of its function's parameters.
        answers: Answers that are no errors, by status.
        errors: What it may end with.
        failed: What it answers then, besides the form that all errors have.
        head: Whether HEAD asks if there is something to get, and 204 says yes.
    """

    summary: str
    takes: Mapping[str, type[Given]]
    answers: Mapping[int, Answer]
    errors: frozenset[ErrorCode]
    failed: type[BaseModel] | None
    head: bool


class View:
    """The function of a route, with its operation.

    Args:
        call: The function.
        operation: What it is.
    """

    __name__: str

    def __init__(self, call: Callable[..., flask.Response], operation: Operation) -> None:
        functools.update_wrapper(self, call)
        self._call = call
        self.operation = operation

    def __call__(self, **path: Any) -> flask.Response:
        """Answers the current request.

        Raises:
            SeamlineError: INVALID_REQUEST, or what the operation ends with.
        """
        given = {name: kind.of_request() for name, kind in self.operation.takes.items()}
        return self._call(**path, **given)


def operation(
    summary: str,
    answers: Mapping[int, Answer],
    errors: Iterable[ErrorCode] = (),
    *,
    failed: type[BaseModel] | None = None,
    head: bool = False,
    refusals: Iterable[ErrorCode] = REFUSALS,
) -> Callable[[Callable[..., flask.Response]], View]:
    """Makes the operation of a function, for a route.

    Args:
        summary: What it does.
        answers: Answers that are no errors, by status.
        errors: What it may end with.
        failed: What it answers then, besides the form that all errors have.
        head: Whether HEAD asks if there is something to get, and 204 says yes.
        refusals: What its requests may be refused with.
    """

    def made(call: Callable[..., flask.Response]) -> View:
        hints = typing.get_type_hints(call)
        takes = {
            name: kind
            for name, kind in hints.items()
            if isinstance(kind, type) and issubclass(kind, Given)
        }
        ends = frozenset({*errors, *refusals})
        return View(call, Operation(summary, takes, answers, ends, failed, head))

    return made


def empty(status: int, headers: Mapping[str, str] | None = None) -> flask.Response:
    """An answer without a body, which has no type either."""
    answer = flask.Response(status=status, headers=dict(headers or {}))
    del answer.headers["Content-Type"]
    return answer


def _refused(kind: type[Given], error: ValidationError) -> SeamlineError:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "the request"
    if first["type"] == "missing":
        return SeamlineError(INVALID_REQUEST, f"the field {name} is missing")
    if first["type"] == "extra_forbidden":
        known = ", ".join(kind.names())
        return SeamlineError(
            INVALID_REQUEST,
            f"{name!r} is not a field of this request",
            hint=f"Fields are: {known}.",
        )
    problem = first["msg"].removeprefix("Input ")
    return SeamlineError(INVALID_REQUEST, f"{name} {problem[:1].lower()}{problem[1:]}")

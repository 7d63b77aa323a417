"""Operations: a route's function declares its inputs in its signature; they are checked here.

A parameter of type `Body` is the request's JSON, `Text` its plain text, `Query` its query string,
and `Headers` its headers; all other parameters are parts of its path. Invalid input is an
INVALID_REQUEST before the function is called. `openapi` documents the operations.
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
"""Statuses of requests that may be retried; their answers say when."""
REFUSALS = frozenset(
    {
        *(INVALID_REQUEST, REQUEST_TOO_LARGE),
        *(UNAUTHENTICATED, PERMISSION_DENIED, TOO_MANY_LOGINS, LOGIN_KEYS_UNAVAILABLE),
    }
)
"""Errors with which any request may be refused before its operation is called."""
ANY = frozenset(code for code in ERRORS.values() if code.kind is not ErrorKind.INTERNAL)
"""Errors with which an operation that reads tables may end."""


class Shape(BaseModel):
    """A JSON object of the gateway's API, which has exactly the declared fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Given(Shape, abc.ABC):
    """An input that an operation takes from a request."""

    @classmethod
    def of_request(cls) -> Self:
        """Returns the input of the current request.

        Raises:
            SeamlineError: INVALID_REQUEST.
        """
        try:
            return cls.model_validate(cls._given())
        except ValidationError as error:
            raise _refused(cls, error) from error

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of its fields in requests."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    @abc.abstractmethod
    def _given(cls) -> Any:
        """Returns the current request's unvalidated data for this model."""


class Body(Given):
    """The JSON object in a request; a null field is the same as a missing one."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def _given(cls) -> Any:
        body = flask.request.get_json(silent=True)
        if not isinstance(body, dict):
            raise SeamlineError(
                INVALID_REQUEST,
                "the body is not a JSON object",
                hint=f"Send {{{cls._example()}}} with Content-Type: {JSON}.",
            )
        return {name: value for name, value in body.items() if value is not None}

    @classmethod
    def _example(cls) -> str:
        return ", ".join(f'"{name}": …' for name in cls.names()[:1])


class Text(Given):
    """The plain text in a request, which may have the type that curl sends by default."""

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
    """The query string of a request."""

    @classmethod
    def _given(cls) -> Any:
        return flask.request.args.to_dict()


class Headers(Given):
    """Headers of a request; those that are not declared as fields are ignored."""

    @classmethod
    def _given(cls) -> Any:
        headers = flask.request.headers
        return {name: headers[name] for name in cls.names() if name in headers}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request.

    Attributes:
        what: Its description.
        content: The content by media type: the model of its JSON, or None if it is not JSON.
    """

    what: str
    content: Mapping[str, type[BaseModel] | None] = dataclasses.field(default_factory=dict)


def json(model: type[BaseModel], what: str) -> Answer:
    """Returns an answer of JSON."""
    return Answer(what, {JSON: model})


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """The description of a route: its purpose, inputs and answers.

    Attributes:
        summary: What it does.
        takes: Its inputs, by the names of its function's parameters.
        answers: Answers that are not errors, by status.
        errors: The errors with which it may end.
        failed: The model of its answer to a failure, besides the form that all errors have.
        head: Whether HEAD asks if there is something to get; 204 means yes.
    """

    summary: str
    takes: Mapping[str, type[Given]]
    answers: Mapping[int, Answer]
    errors: frozenset[ErrorCode]
    failed: type[BaseModel] | None
    head: bool


class View:
    """The function of a route, with its operation."""

    __name__: str

    def __init__(self, call: Callable[..., flask.Response], operation: Operation) -> None:
        functools.update_wrapper(self, call)
        self._call = call
        self.operation = operation

    def __call__(self, **path: Any) -> flask.Response:
        """Answers the current request.

        Raises:
            SeamlineError: INVALID_REQUEST, or the error with which the operation ends.
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
    """Returns a decorator that makes a function an operation, for a route.

    Args:
        summary: What it does.
        answers: Answers that are not errors, by status.
        errors: The errors with which it may end.
        failed: The model of its answer to a failure, besides the form that all errors have.
        head: Whether HEAD asks if there is something to get; 204 means yes.
        refusals: The errors with which its requests may be refused.
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
    """Returns an answer without a body, and therefore without a content type."""
    answer = flask.Response(status=status, headers=dict(headers or {}))
    del answer.headers["Content-Type"]
    return answer


def _refused(kind: type[Given], error: ValidationError) -> SeamlineError:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "the request"
    if first["type"] == "missing":
        return SeamlineError(INVALID_REQUEST, f"the field {name} is missing")
    if first["type"] == "extra_forbidden":
        names = ", ".join(kind.names())
        return SeamlineError(
            INVALID_REQUEST,
            f"{name!r} is not a field of this request",
            hint=f"The fields are {names}.",
        )
    problem = first["msg"].removeprefix("Input ")
    return SeamlineError(INVALID_REQUEST, f"{name} {problem[:1].lower()}{problem[1:]}")

"""Parses SQL's JSON paths, by recursive descent."""

from __future__ import annotations

import decimal
import functools
import json
import re
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql.kernels import sql_paths as paths
from seamline.sql.kernels.json_texts import Number
from seamline.sql.kernels.sql_paths import Condition, Path, SqlPath

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>"(?:[^"\\]|\\.)*")"""
    r"""|(?P<variable>\$[A-Za-z_]\w*)|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<sign>\.\.|&&|\|\||==|<>|!=|<=|>=|[$@.\[\]()*,?<>!+/%-]))""",
    re.DOTALL,
)
_DEPTH_MAX = 60
_LOOKS_MAX = 20_000
_LITERALS = {"true": True, "false": False, "null": None}
_FLAGS = frozenset("ismx")


class _Token(NamedTuple):
    kind: str
    text: str


@functools.lru_cache(maxsize=512)
def sql_path(path: str) -> SqlPath:
    """Parses an SQL path.

    Raises:
        SeamlineError: INVALID_ARGUMENT; NOT_SUPPORTED for `datetime()`.
    """
    return _Parser(path).whole()


class _Parser:
    def __init__(self, path: str) -> None:
        self._path = path
        self._tokens: list[_Token] = []
        self._at = 0
        self._depth = 0
        self._looks = 0
        self._names: set[str] = set()
        end = 0
        while path[end:].strip():
            match = _TOKEN.match(path, end)
            if match is None:
                raise self._wrong()
            assert match.lastgroup is not None
            self._tokens.append(_Token(match.lastgroup, match[match.lastgroup]))
            end = match.end()

    def whole(self) -> SqlPath:
        is_strict = self._accept("strict")
        if not is_strict:
            self._accept("lax")
        path = self._sum()
        if self._at < len(self._tokens):
            raise self._wrong()
        return SqlPath(not is_strict, path, frozenset(self._names))

    # --- Tokens ---

    def _peek(self, ahead: int = 0) -> _Token:
        self._looks += 1
        if self._looks > _LOOKS_MAX:  # brackets are read as a condition first, then as a value
            raise SeamlineError(INVALID_ARGUMENT, "a JSON path is nested too deeply", hint="")
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _Token("end", "")

    def _accept(self, text: str) -> bool:
        token = self._peek()
        if token.kind in {"sign", "word"} and token.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._accept(text):
                raise self._wrong()

    def _take(self, kind: str) -> str:
        token = self._peek()
        if token.kind != kind:
            raise self._wrong()
        self._at += 1
        return token.text

    def _wrong(self) -> SeamlineError:
        return SeamlineError(
            INVALID_ARGUMENT,
            f"{self._path!r} is not a JSON path",
            hint="Write lax $.name, $.items[*]?(@.price > 10), $[0 to last] and the like.",
        )

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise SeamlineError(INVALID_ARGUMENT, "a JSON path is nested too deeply", hint="")

    # --- Values ---

    def _sum(self) -> Path:
        return self._operators(("+", "-"), self._product)

    def _product(self) -> Path:
        return self._operators(("*", "/", "%"), self._signed)

    def _operators(self, signs: tuple[str, ...], operand: Callable[[], Path]) -> Path:
        self._deeper()
        path = operand()
        while (token := self._peek()).kind == "sign" and token.text in signs:
            self._at += 1
            path = paths.arithmetic(token.text, path, operand())
        self._depth -= 1
        return path

    def _signed(self) -> Path:
        for sign in ("-", "+"):
            if self._accept(sign):
                self._deeper()
                path = paths.signed(sign, self._signed())
                self._depth -= 1
                return path
        return self._steps(self._first())

    def _first(self) -> Path:
        token = self._peek()
        self._at += 1
        match token:
            case _Token("sign", "$"):
                return paths.root
            case _Token("sign", "@"):
                return paths.current
            case _Token("variable", text):
                self._names.add(text[1:])
                return paths.variable(text[1:])
            case _Token("word", "last"):
                return paths.last
            case _Token("word", text) if text in _LITERALS:
                return paths.constant(_LITERALS[text])
            case _Token("number", text):
                return paths.constant(_number(text))
            case _Token("text", text):
                return paths.constant(self._unquoted(text))
            case _Token("sign", "("):
                path = self._sum()
                self._expect(")")
                return path
        raise self._wrong()

    def _unquoted(self, text: str) -> str:
        try:
            return str(json.loads(text, strict=False))
        except ValueError as error:
            raise self._wrong() from error

    def _steps(self, path: Path) -> Path:
        while True:
            if self._accept(".."):
                path = paths.descendants(path, self._name())
            elif self._accept("."):
                path = self._member(path)
            elif self._accept("["):
                path = paths.elements(path, self._places())
            elif self._accept("?"):
                self._expect("(")
                path = paths.filtered(path, self._condition())
                self._expect(")")
            else:
                return path

    def _name(self) -> str:
        if self._peek().kind == "text":
            return self._unquoted(self._take("text"))
        return self._take("word")

    def _member(self, path: Path) -> Path:
        if self._accept("*"):
            return paths.member(path, None)
        is_method = self._peek().kind == "word" and self._peek(1).text == "("
        name = self._name()
        if not is_method:
            return paths.member(path, name)
        if name not in paths.METHODS:
            raise SeamlineError(
                NOT_SUPPORTED if name == "datetime" else INVALID_ARGUMENT,
                f"there is no method {name}() in the JSON path {self._path!r}",
                hint=f"The methods are {', '.join(sorted(paths.METHODS))}.",
            )
        self._expect("(", ")")
        return paths.method(path, name)

    def _places(self) -> list[tuple[Path, Path]] | None:
        if self._accept("*"):
            self._expect("]")
            return None
        ranges = []
        while True:
            first = self._sum()
            ranges.append((first, self._sum() if self._accept("to") else first))
            if self._accept("]"):
                return ranges
            self._expect(",")

    # --- Conditions ---

    def _condition(self) -> Condition:
        self._deeper()
        condition = self._conjunction()
        while self._accept("||"):
            condition = paths.either(condition, self._conjunction())
        self._depth -= 1
        return condition

    def _conjunction(self) -> Condition:
        condition = self._predicate()
        while self._accept("&&"):
            condition = paths.both(condition, self._predicate())
        return condition

    def _predicate(self) -> Condition:
        if self._accept("!"):
            if self._accept("("):
                return paths.negated(self._bracketed())
            if self._peek().text != "exists":
                raise self._wrong()
            return paths.negated(self._predicate())
        if self._peek() == _Token("word", "exists") and self._peek(1).text == "(":
            self._expect("exists", "(")
            condition = paths.exists(self._sum())
            self._expect(")")
            return condition
        start = self._at
        if self._accept("("):
            try:
                condition = self._bracketed()
            except SeamlineError:
                self._at = start  # the bracket belongs to a value
            else:
                if self._accept("is"):
                    self._expect("unknown")
                    return paths.is_unknown(condition)
                if self._peek().text in {"&&", "||", ")"}:
                    return condition
                self._at = start
        return self._comparison()

    def _bracketed(self) -> Condition:
        depth = self._depth
        try:
            condition = self._condition()
            self._expect(")")
        finally:
            self._depth = depth
        return condition

    def _comparison(self) -> Condition:
        left = self._sum()
        if self._accept("starts"):
            self._expect("with")
            return paths.starts_with(left, self._start())
        if self._accept("like_regex"):
            return self._pattern(left)
        sign = self._take("sign")
        sign = "<>" if sign == "!=" else sign
        if sign not in paths.COMPARISONS:
            raise self._wrong()
        return paths.compares(sign, left, self._sum())

    def _start(self) -> Path:
        if self._peek().kind not in {"text", "variable"}:
            raise self._wrong()
        return self._first()

    def _pattern(self, path: Path) -> Condition:
        pattern = self._unquoted(self._take("text"))
        flags = self._unquoted(self._take("text")) if self._accept("flag") else ""
        if not set(flags) <= _FLAGS:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"{flags!r} are not flags of like_regex",
                hint="The flags are i, m, s and x.",
            )
        if "x" in flags:
            pattern = re.sub(r"\s+", "", pattern)
        set_flags = "".join(sorted(set(flags) - {"x"}))
        pattern = f"(?{set_flags}){pattern}" if set_flags else pattern
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise SeamlineError(
                INVALID_ARGUMENT, f"{pattern!r} is not a regular expression", hint=""
            ) from error
        return paths.like_regex(path, pattern)


def _number(text: str) -> Number | decimal.Decimal:
    if text.isdigit():
        return Number(int(text))
    return Number(float(text)) if "e" in text.lower() else decimal.Decimal(text)

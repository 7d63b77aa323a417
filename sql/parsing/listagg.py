"""LISTAGG and its clause ON OVERFLOW, which sqlglot keeps no record of."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


class ListaggWithin(exp.Anonymous):
    """LISTAGG with ON OVERFLOW: a text, a separator, what is to happen, the text for the rest."""

    _sql_names = ["SEAMLINE_LISTAGG"]  # noqa: RUF012 - sqlglot's way of declaring a node


def parse_listagg(parser: Any) -> exp.Anonymous:
    """Parses the arguments of LISTAGG, and its ON OVERFLOW clause."""
    name = parser._tokens[parser._index - 2]  # noqa: SLF001 - how sqlglot's parsers are extended
    call = exp.Anonymous(this=name.text, expressions=parser._parse_function_args(True))  # noqa: SLF001
    call.update_positions(name)
    match = parser._match_text_seq  # noqa: SLF001
    if not match("ON", "OVERFLOW"):
        return call
    rest, instead = "error", None
    if not match("ERROR"):
        if not match("TRUNCATE"):
            parser.raise_error("Expected ERROR or TRUNCATE")
        instead = parser._parse_string()  # noqa: SLF001
        rest = "count" if match("WITH", "COUNT") else "none"
        if rest == "none" and not match("WITHOUT", "COUNT"):
            parser.raise_error("Expected WITH COUNT or WITHOUT COUNT")
    arguments = call.expressions
    inside = (
        arguments[0] if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct) else call
    )
    if len(inside.expressions) == 1:
        inside.append("expressions", exp.Literal.string(""))
    inside.append("expressions", exp.Literal.string(rest))
    inside.append("expressions", instead or exp.Literal.string("..."))
    within = ListaggWithin(this=name.text, expressions=call.expressions)
    return within.update_positions(name)

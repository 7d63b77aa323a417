"""Templates that render a call as the SQL of one engine.

In a template `{0}` is the first argument, `{args}` all arguments, and `{type}` the result's type in
that engine. `{distinct}`, `{order}`, `{over}` and `{nulls}` mark where an aggregate's clauses go.

A template may mention an argument more than once. An argument that is itself a computation is then
computed once, under a name, so that the text grows only linearly with the number of nested calls.
«…» encloses the part in which this is possible where that is not the whole template, as in an
aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from seamline.sql import types
from seamline.sql.quoting import quoted_text, spark_name, spark_text
from seamline.sql.types import Type

DUCKDB = "duckdb"
SPARK = "spark"

Template: TypeAlias = str | Callable[[Sequence[str], Sequence[Type], Type], str]
"""Text with placeholders, or a function of (arguments, their types, the result's type)."""


def rendered(
    template: Template,
    args: Sequence[str],
    arguments: Sequence[Type],
    returns: Type,
    engine: str,
    *,
    plain: Sequence[bool] = (),
    lambdas: Sequence[bool] = (),
    distinct: str = "",
    over: str = "",
    nulls: str = "",
    order: str = "",
) -> str:
    """Renders a call in an engine's SQL.

    Args:
        template: The overload's template for the engine.
        args: The arguments in that SQL.
        arguments: Their types.
        returns: The result's type.
        engine: `duckdb` or `spark`.
        plain: Which arguments may be repeated: columns and literals.
        lambdas: Which arguments are lambdas; a template mentions each of them once.
        distinct: DISTINCT of an aggregate, with a trailing space.
        over: FILTER and OVER of an aggregate or window function, with a leading space.
        nulls: IGNORE NULLS or RESPECT NULLS, with a leading space.
        order: ORDER BY of an aggregate, with a leading space.
    """
    names = {"distinct": distinct, "over": over, "nulls": nulls, "order": order}
    if isinstance(template, str) and "{type}" in template:
        names["type"] = (types.to_duckdb if engine == DUCKDB else types.to_spark)(returns)

    def filled(part: Template, texts: Sequence[str]) -> str:
        if callable(part):
            return part(texts, arguments, returns)
        return part.format(*texts, args=", ".join(texts), **names)

    plainness = plain or [False] * len(args)
    functions = lambdas or [False] * len(args)
    marks = [
        arg if is_plain or is_lambda else f"\0{i}\0"
        for i, (arg, is_plain, is_lambda) in enumerate(zip(args, plainness, functions, strict=True))
    ]
    before, inner, after = _parts(template)
    text = filled(inner, marks)
    if any(mark != arg and _is_repeated(mark, text) for mark, arg in zip(marks, args, strict=True)):
        values = [arg for arg, is_lambda in zip(args, functions, strict=True) if not is_lambda]

        def with_lambdas(names: Sequence[str]) -> str:
            rest = iter(names)
            pairs = zip(args, functions, strict=True)
            return filled(inner, [arg if is_lambda else next(rest) for arg, is_lambda in pairs])

        text = bound(engine, values, with_lambdas)
    text = filled(before, marks) + text + filled(after, marks)
    for mark, arg in zip(marks, args, strict=True):
        if mark != arg:
            text = text.replace(mark, arg)
    return text


def _is_repeated(mark: str, text: str) -> bool:
    """Whether an argument is computed more than once: mentioned again, or inside a lambda."""
    return text.count(mark) > 1 or _is_in_lambda(text[: max(text.find(mark), 0)])


_LAMBDA_OR_BRACKET = re.compile(r"->|lambda |[(\[{]|[)\]}]")


def _is_in_lambda(before: str) -> bool:
    """Whether the text that follows is in a lambda's body: the bracket around it is still open."""
    depth, lambdas = 0, list[int]()
    for match in _LAMBDA_OR_BRACKET.finditer(before):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
            lambdas = [opened for opened in lambdas if opened <= depth]
        else:
            lambdas.append(depth)
    return bool(lambdas)


def _parts(template: Template) -> tuple[str, Template, str]:
    """Returns what is before, in and after «…»; without these marks, everything is inside."""
    if callable(template) or "«" not in template:
        return "", template, ""
    before, _, rest = template.partition("«")
    inner, _, after = rest.partition("»")
    return before, inner, after


def bound(
    engine: str, values: Sequence[str], body: Callable[[Sequence[str]], str], *, name: str = "v"
) -> str:
    """Returns an expression over values that are each computed once.

    Args:
        engine: `duckdb` or `spark`.
        values: The values in its SQL.
        body: Builds the expression from the values' names.
        name: The name of a single value, or of the row of several.
    """
    fields = [f"a{position}" for position in range(len(values))]
    if len(values) == 1:
        names, one = [name], values[0]
    else:
        names = [field_of(engine, name, field) for field in fields]
        one = row_of(engine, dict(zip(fields, values, strict=True)))
    if engine == DUCKDB:
        return f"list_transform([{one}], lambda {name}: {body(names)})[1]"
    return f"element_at(transform(array({one}), {name} -> {body(names)}), 1)"


def row_of(engine: str, fields: Mapping[str, str]) -> str:
    """Returns a row of named values."""
    if engine == DUCKDB:
        pairs = ", ".join(f"{quoted_text(name)}: {value}" for name, value in fields.items())
        return f"{{{pairs}}}"
    pairs = ", ".join(f"{spark_text(name)}, {value}" for name, value in fields.items())
    return f"named_struct({pairs})"


def field_named(engine: str, row: str, name: str) -> str:
    """Returns a field of a row, whatever characters its name has."""
    if engine == DUCKDB:
        return f"struct_extract({row}, {quoted_text(name)})"
    return f"{row}.{spark_name(name)}"


def field_of(engine: str, name: str, field: str) -> str:
    """Returns a field of a named row, with brackets on DuckDB: HAVING reads a dot as a column's."""
    return f"{name}['{field}']" if engine == DUCKDB else f"{name}.{field}"

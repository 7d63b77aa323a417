"""The JSON functions of the SQL standard, whose clauses are keywords rather than arguments."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import types
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.conversions import explicit_cast, implicit_cast, of_length
from seamline.sql.binder.function_calls import bind_call
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.shapes import is_text
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.expressions.casts import in_zones
from seamline.sql.kernels.json_casts import can_be_json
from seamline.sql.kernels.path_parsing import sql_path
from seamline.sql.parsing.dialects import SqlJson, SqlJsonMade, SqlJsonMember


def _bind(binder: Binder, node: SqlJson, scope: Scope) -> Typed:
    path = node.args.get("path")
    if node.args.get("this") is None or path is None:
        raise SeamlineError(TYPE_MISMATCH, f"{node.name_of_function} needs a value and a path")
    if not is_text(path):
        raise SeamlineError(INVALID_ARGUMENT, "a JSON path must be a literal", hint="")
    read = sql_path(path.name).names  # an invalid path fails regardless of the rows
    text = binder.expression(node.this, scope)
    arguments = [text, _word(path.name)]
    passed = _passed(binder, node.args.get("passing") or [], read, scope)
    match node.name_of_function:
        case "JSON_EXISTS":
            on_error = _word(_clause(node, "error", "false"))
            return bind_call("$json_exists", [*arguments, on_error, *passed])
        case "JSON_QUERY":
            words = [node.args.get("wrapper") or "without", node.args.get("quotes") or "keep"]
            words += [_clause(node, key, "null") for key in ("empty", "error")]
            query = bind_call("$json_query", [*arguments, *map(_word, words), *passed])
            return _returned(query, node, safe=False)
    return _bind_value(binder, node, arguments, passed, scope)


def _passed(
    binder: Binder, members: Sequence[SqlJsonMember], read: frozenset[str], scope: Scope
) -> list[Typed]:
    """Returns the names and values of PASSING as two arguments, or none.

    Raises:
        SeamlineError: INVALID_ARGUMENT when the path reads a variable that is not passed.
    """
    names, values = [], []
    for member in members:
        value, type_ = binder.expression(member.this, scope)
        is_known = types.is_numeric(type_) or type_ in _PASSED or isinstance(type_, types.Char)
        if not is_known:
            what = f"a value of type {type_} in PASSING"
            raise SeamlineError(
                NOT_SUPPORTED, f"{what} is not supported", hint="Cast it to varchar."
            )
        is_text = bool(member.args.get("format")) and type_ in {types.VARCHAR, types.UNKNOWN}
        kind = "decimal" if isinstance(type_, types.Decimal) else "text" if is_text else "json"
        names.append(f"{kind}:{member.args['key'].name}")
        # text that is not JSON is an error of the path
        values.append((value, type_) if is_text else _as_json(member, value, type_))
    passed = {name.partition(":")[2] for name in names}
    for missing in sorted(read - passed):
        hint = f'Write PASSING … AS "{missing}"; a name without quotes is in capitals.'
        message = f"the JSON path reads ${missing}, which PASSING does not supply"
        raise SeamlineError(INVALID_ARGUMENT, message, hint=hint)
    return [_word(" ".join(names)), _texts(values)] if names else []


_PASSED = (types.VARCHAR, types.BOOLEAN, types.JSON, types.UNKNOWN)


def _word(text: str) -> Typed:
    return exp.Literal.string(text), types.VARCHAR


def _clause(node: SqlJson, key: str, default: str) -> str:
    """Returns an ON EMPTY or ON ERROR clause in lower case; 'default' where it gives a value."""
    clause = node.args.get(key)
    return default if clause is None else clause if isinstance(clause, str) else "default"


def _returned(value: Typed, node: SqlJson | SqlJsonMade, *, safe: bool) -> Typed:
    target = node.args.get("returning")
    if target is None:
        return value
    type_ = types.from_sqlglot(target)
    if type_ == types.VARCHAR and target.expressions:
        return of_length(value[0], int(target.expressions[0].name), is_text=True, safe=safe), type_
    if type_ == value[1]:
        return value
    type_ = in_zones(value[1], type_)
    return explicit_cast(*value, type_, safe=safe), type_


def _family(node: SqlJson) -> str:
    """Returns the kind of the type after RETURNING."""
    target = node.args.get("returning")
    type_ = types.VARCHAR if target is None else types.from_sqlglot(target)
    if type_ in types.INTEGERS:
        return "integer"
    if type_ == types.BOOLEAN:
        return "boolean"
    return "number" if types.is_numeric(type_) else "text"


def _bind_value(
    binder: Binder, node: SqlJson, arguments: list[Typed], passed: list[Typed], scope: Scope
) -> Typed:
    words = [_clause(node, key, "null") for key in ("empty", "error")]
    values = bind_call("$json_value", [*arguments, *map(_word, [*words, _family(node)]), *passed])
    first = bind_call("element_at", [values, (exp.Literal.number(1), types.INTEGER)])
    value, type_ = _returned(first, node, safe=words[1] != "error")
    if "default" not in words:
        return value, type_

    def default(key: str) -> exp.Expr:
        node_ = node.args.get(key)
        if not isinstance(node_, exp.Expr):
            return exp.Null()
        return explicit_cast(*binder.expression(node_, scope), type_, safe=False)

    size, _ = bind_call("cardinality", [(values[0].copy(), values[1])])
    is_null = exp.Is(this=exp.Paren(this=arguments[0][0].copy()), expression=exp.Null())
    is_empty = exp.Is(this=exp.Paren(this=values[0].copy()), expression=exp.Null())
    failed = exp.EQ(this=size, expression=exp.Literal.number(0))
    cases: list[tuple[exp.Expr, exp.Expr]] = [
        (is_null, exp.Null()),
        (is_empty, default("empty")),
        (failed, default("error")),
    ]
    if words[1] == "default" and value is not first[0]:
        is_there = exp.Not(this=exp.Is(this=exp.Paren(this=first[0].copy()), expression=exp.Null()))
        is_no_value = exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null())
        cases.append((exp.and_(is_there, is_no_value), default("error")))
    return (
        exp.Case(ifs=[exp.If(this=test, true=then) for test, then in cases], default=value),
        type_,
    )


# --- JSON_OBJECT and JSON_ARRAY ------------------------------------------------------------------


def _bind_made(binder: Binder, node: SqlJsonMade, scope: Scope) -> Typed:
    members = node.expressions
    values = _texts([_as_json(m, *binder.expression(m.this, scope)) for m in members])
    if node.name_of_function == "JSON_ARRAY":
        json = bind_call("$json_array", [values, _word(node.args.get("nulls") or "absent")])
    else:
        keys = _texts([_key(binder, member, scope) for member in members])
        words = node.args.get("nulls") or "null", "unique" if node.args.get("unique") else ""
        json = bind_call("$json_object", [keys, values, *map(_word, words)])
    return _returned(json, node, safe=False)


def _key(binder: Binder, member: SqlJsonMember, scope: Scope) -> Typed:
    value, type_ = binder.expression(member.args["key"], scope)
    if type_ not in (types.VARCHAR, types.UNKNOWN):
        raise SeamlineError(
            TYPE_MISMATCH, f"a key of JSON_OBJECT must be text, not {type_}", hint=""
        )
    return value, type_


def _as_json(member: SqlJsonMember, value: exp.Expr, type_: types.Type) -> Typed:
    """Returns a value as JSON; calls that make or find JSON are JSON even without FORMAT JSON."""
    is_json = isinstance(member.this, SqlJsonMade) or (
        isinstance(member.this, SqlJson) and member.this.name_of_function == "JSON_QUERY"
    )
    if type_ == types.VARCHAR and (is_json or member.args.get("format")):
        return bind_call("json_parse", [(value, type_)])
    if not can_be_json(type_):
        value, type_ = explicit_cast(value, type_, types.VARCHAR, safe=False), types.VARCHAR
    return explicit_cast(value, type_, types.JSON, safe=False), types.JSON


def _texts(values: Sequence[Typed]) -> Typed:
    """Returns an array of texts, in which a value of type json is its text."""
    elements = [
        value if type_ == types.JSON else implicit_cast(value, type_, types.VARCHAR)
        for value, type_ in values
    ]
    returns = types.Array(types.VARCHAR)
    overload = constructor("$array", "CAST([{args}] AS {type})", "CAST(array({args}) AS {type})")
    spec = CallSpec(overload, (types.VARCHAR,) * len(elements), returns)
    return call(spec, elements), returns


HANDLERS: Handlers = {SqlJson: _bind, SqlJsonMade: _bind_made}

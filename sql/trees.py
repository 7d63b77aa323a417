"""Walks and copies of syntax trees, for statements of tens of thousands of nodes.

A statement is walked and copied some twenty times before it runs, while Python runs nothing else.
sqlglot's own walks resume three generators for each node, and its copies inspect what `meta` holds
value by value. These take a third of the time.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

_Node = TypeVar("_Node", bound=exp.Expr)


def nodes_of(tree: exp.Expr, leaves: tuple[type[exp.Expr], ...] = ()) -> list[exp.Expr]:
    """Returns the nodes of a tree level by level, the root first, as `tree.walk()` yields them.

    Args:
        tree: The tree. It may be changed while the list is in use.
        leaves: Kinds of nodes whose own parts are left out.
    """
    nodes = [tree]
    for node in nodes:
        if leaves and isinstance(node, leaves):
            continue
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                nodes.append(value)
            elif isinstance(value, list):
                nodes.extend([part for part in value if isinstance(part, exp.Expr)])
    return nodes


def nodes_of_kind(tree: exp.Expr, kind: type[_Node]) -> list[_Node]:
    """Returns the nodes of one kind, level by level, as `tree.find_all(kind)` yields them."""
    return [node for node in nodes_of(tree) if isinstance(node, kind)]


def copy_of(tree: exp.Expr) -> exp.Expr:
    """Returns a copy of a tree, as `tree.copy()` does; both share the values in `meta`."""
    root = tree.__class__()
    pairs = [(tree, root)]
    for node, copy in pairs:
        copy.comments = None if node.comments is None else list(node.comments)
        copy._type = node._type  # noqa: SLF001 - its own copy copies these
        copy._hash = node._hash  # noqa: SLF001
        copy._meta = None if node._meta is None else dict(node._meta)  # noqa: SLF001
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                copy.args[key] = part = value.__class__()
                part.parent, part.arg_key = copy, key
                pairs.append((value, part))
            elif isinstance(value, list):
                copy.args[key] = parts = list(value)
                for index, inner in enumerate(value):
                    if isinstance(inner, exp.Expr):
                        parts[index] = part = inner.__class__()
                        part.parent, part.arg_key, part.index = copy, key, index
                        pairs.append((inner, part))
            else:
                copy.args[key] = value
    return root

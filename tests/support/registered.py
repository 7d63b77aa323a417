"""The stack with a schema registry for its cluster, and a gateway over both."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pathlib
from collections.abc import Iterator

from seamline.gateway.catalogs.connections import Connections
from support.gateway import Gateway
from support.registry import Registry
from support.stack import Stack


@dataclasses.dataclass
class Registered:
    """The stack, a gateway over it, and the registry they know."""

    stack: Stack
    gateway: Gateway
    registry: Registry


@contextlib.contextmanager
def registered_stack(stack: Stack, directory: pathlib.Path) -> Iterator[Registered]:
    """A registry for the stack's cluster, as long as the context lasts."""
    with Registry() as registry, told_of(registry.url, stack, directory) as (other, gateway):
        yield Registered(other, gateway, registry)


@contextlib.contextmanager
def told_of(url: str, stack: Stack, directory: pathlib.Path) -> Iterator[tuple[Stack, Gateway]]:
    """The stack and a gateway over it that know a registry, as long as the context lasts."""
    flags = {
        **stack.flags,
        "clusters.default.schema_registry.url": url,
        "state_directory": str(directory),
    }
    other = copy.copy(stack)
    other.config = stack.configured(flags)
    other.connections = Connections(other.config)
    gateway = Gateway(other.config)
    yield other, gateway
    gateway.close()
    other.connections.close()

"""A client of the gateway that a module's own fixture starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.gateway import Gateway

import seamline


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[seamline.Connection]:
    with gateway.connect() as made:
        yield made

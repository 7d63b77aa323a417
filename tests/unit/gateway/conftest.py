"""A shop to adopt, and a client of the gateway that a module's own fixture starts."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.adopting import Shop
from support.gateway import Gateway

import seamline


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[seamline.Connection]:
    with gateway.connect() as made:
        yield made

"""Goal: an address or an access token that cannot be used is named before anything is sent.

Method: invalid texts of every kind.
"""

from __future__ import annotations

import pytest

import seamline

ADDRESSES = (
    "localhost:8474",
    "ftp://localhost",
    "http://",
    "http://localhost:0",
    "http://localhost:80000",
    "http://localhost:port",
    "http://[::1",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_fault_24_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(seamline.ProgrammingError, match="INVALID_ARGUMENT"):
        seamline.connect(address)


@pytest.mark.parametrize("token", ["a\nb", "“quoted”", "\x00"])
def test_fault_24_an_access_token_that_no_header_carries_is_named(token: str) -> None:
    with pytest.raises(seamline.ProgrammingError, match="INVALID_ARGUMENT") as caught:
        seamline.connect("http://127.0.0.1:1", access_token=token)
    assert token not in str(caught.value)

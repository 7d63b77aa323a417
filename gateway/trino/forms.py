"""The form in which a client reads answers.

It says so in the headers of its submission, and its later requests have no headers that could be
relied on. So the addresses that it is given carry the form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from werkzeug.datastructures import Headers

from seamline.gateway.trino import segments

CAPABILITIES = "X-Trino-Client-Capabilities"
_PRECISIONS = "PARAMETRIC_DATETIME"


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """How a client reads answers.

    Attributes:
        encoding: The encoding of rows; None for plain rows.
        precisions: Whether types of times have their precision: `timestamp(6)`. Clients older than
            these, or as simple, look types up by their bare name.
    """

    encoding: str | None = None
    precisions: bool = True

    @classmethod
    def of_headers(cls, headers: Headers) -> Self:
        """Returns the form that a submission asks for."""
        capabilities = headers.get(CAPABILITIES, "").split(",")
        return cls(
            segments.chosen(headers.get(segments.HEADER, "")),
            _PRECISIONS in (name.strip() for name in capabilities),
        )

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, str]) -> Self:
        """Returns the form that an address carries."""
        encoding = segments.chosen(parameters.get("encoding", ""))
        return cls(encoding, parameters.get("precisions") != "none")

    def parameters(self) -> dict[str, str]:
        """Returns what an address carries, for `of_parameters`."""
        parameters = {} if self.encoding is None else {"encoding": self.encoding}
        return parameters if self.precisions else {**parameters, "precisions": "none"}

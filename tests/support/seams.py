"""Seams that differ from another one in some fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from seamline.seam.seam import Seam


def replace(seam: Seam, **fields: Any) -> Seam:
    """Returns the seam with other values in fields of its own, of its cold part, or of its log."""
    for name in ("cold", "log"):
        part = getattr(seam, name)
        of_part = {field.name for field in dataclasses.fields(part)} & fields.keys()
        fields[name] = dataclasses.replace(part, **{each: fields.pop(each) for each in of_part})
    return dataclasses.replace(seam, **fields)

"""The files that Protobuf schemas import without a reference, because registries know them.

Google's come with its libraries. Those of Confluent are defined here.
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Iterator

import grpc_tools

PREFIXES = ("google/protobuf/", "google/type/", "confluent/")
"""The folders of these files."""

_META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_VARIANT = """
syntax = "proto3";
package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
"""
_FORMER_DECIMAL = 'syntax = "proto3"; import public "confluent/type/decimal.proto";'
TEXTS = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    "confluent/types/decimal.proto": _FORMER_DECIMAL,
}
"""The text of Confluent's files, by path."""


def folders() -> Iterator[str]:
    """Yields where Google's files are, as the compiler takes it: a folder, or `name=folder`."""
    yield str(pathlib.Path(grpc_tools.__file__).parent / "_proto")
    types = importlib.util.find_spec("google.type")
    if types is not None and types.submodule_search_locations:
        yield f"google/type={next(iter(types.submodule_search_locations))}"

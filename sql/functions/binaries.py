"""Functions of bytes: parts, digests, and encodings as text."""

from __future__ import annotations

from seamline.sql.functions.registry import kernel, scalar
from seamline.sql.kernels import binaries, texts
from seamline.sql.kernels.kernel import by_row

scalar(
    "concat",
    "varbinary... -> varbinary",
    lambda a, _, __: "(" + " || ".join(a) + ")",
    "concat({args})",
)
scalar("to_hex", "varbinary -> varchar", "hex({0})")
scalar("to_utf8", "varchar -> varbinary", "encode({0})", "encode({0}, 'UTF-8')")
kernel("from_utf8", "varbinary -> varchar", by_row(texts.from_utf8))
kernel("from_utf8", "varbinary, varchar -> varchar", by_row(texts.from_utf8))
kernel("from_utf8", "varbinary, bigint -> varchar", by_row(texts.from_utf8))
kernel("reverse", "varbinary -> varbinary", by_row(texts.backwards))
kernel("lpad", "varbinary, bigint, varbinary -> varbinary", by_row(texts.left_padded))
kernel("rpad", "varbinary, bigint, varbinary -> varbinary", by_row(texts.right_padded))
kernel("substr", "varbinary, bigint -> varbinary", by_row(texts.part_of))
kernel("substr", "varbinary, bigint, bigint -> varbinary", by_row(texts.part_of))

scalar("md5", "varbinary -> varbinary", "unhex(md5({0}))", "unhex(md5({0}))")
scalar("sha256", "varbinary -> varbinary", "unhex(sha256({0}))", "unhex(sha2({0}, 256))")
kernel("sha1", "varbinary -> varbinary", by_row(binaries.digest("sha1")))
kernel("sha512", "varbinary -> varbinary", by_row(binaries.digest("sha512")))
for _name in ("md5", "sha1", "sha256", "sha512"):
    kernel(
        f"hmac_{_name}",
        "varbinary, varbinary -> varbinary",
        by_row(binaries.keyed_digest(_name)),
    )
kernel("crc32", "varbinary -> bigint", by_row(binaries.crc32))
kernel("xxhash64", "varbinary -> varbinary", by_row(binaries.xxhash64))
kernel("murmur3", "varbinary -> varbinary", by_row(binaries.murmur3))

for _name, _write, _read in (
    ("base64", binaries.to_base64, binaries.from_base64),
    ("base64url", binaries.to_base64url, binaries.from_base64url),
    ("base32", binaries.to_base32, binaries.from_base32),
):
    kernel(f"to_{_name}", "varbinary -> varchar", by_row(_write))
    for _type in ("varchar", "varbinary"):
        kernel(f"from_{_name}", f"{_type} -> varbinary", by_row(_read))
for _type in ("varchar", "varbinary"):
    kernel("from_hex", f"{_type} -> varbinary", by_row(binaries.from_hex))

for _name, _type, _form in (
    ("big_endian_64", "bigint", ">q"),
    ("big_endian_32", "integer", ">i"),
    ("ieee754_64", "double", ">d"),
    ("ieee754_32", "real", ">f"),
):
    kernel(f"to_{_name}", f"{_type} -> varbinary", by_row(binaries.packer(_form)))
    kernel(f"from_{_name}", f"varbinary -> {_type}", by_row(binaries.unpacker(_form)))

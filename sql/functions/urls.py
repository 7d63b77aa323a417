"""Functions of URLs."""

from __future__ import annotations

from seamline.sql.functions.registry import kernel
from seamline.sql.kernels import urls
from seamline.sql.kernels.kernel import by_row

for _part in ("protocol", "host", "path", "query", "fragment"):
    kernel(f"url_extract_{_part}", "varchar -> varchar", by_row(urls.part(_part)))
kernel("url_extract_port", "varchar -> bigint", by_row(urls.port))
kernel("url_extract_parameter", "varchar, varchar -> varchar", by_row(urls.parameter))
kernel("url_encode", "varchar -> varchar", by_row(urls.encode))
kernel("url_decode", "varchar -> varchar", by_row(urls.decode))

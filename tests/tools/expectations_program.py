"""What Great Expectations asks over `trino://`: `python expectations_program.py PORT TABLE`.

Expectations about a table and about a query, which it computes in SQL. Writes those that do not
hold, and those that could not be computed, as JSON.
"""

from __future__ import annotations

import json
import sys

import great_expectations
from great_expectations import expectations as gxe

port, table = sys.argv[1:]
context = great_expectations.get_context(mode="ephemeral")
source = context.data_sources.add_sql(
    "lake", connection_string=f"trino://ann@127.0.0.1:{port}/lake/default"
)
asset = source.add_table_asset("table", table_name=table, schema_name="default")
batch = asset.add_batch_definition_whole_table("all").get_batch()
quantiles = {"quantiles": [0.25, 0.5], "value_ranges": [[1, 2], [2, 3]]}
EXPECTED = (
    gxe.ExpectTableRowCountToEqual(value=4),
    gxe.ExpectTableColumnsToMatchOrderedList(column_list=["id", "channel", "price"]),
    gxe.ExpectColumnValuesToBeOfType(column="id", type_="BIGINT"),
    gxe.ExpectColumnValuesToNotBeNull(column="id"),
    gxe.ExpectColumnValuesToBeUnique(column="id"),
    gxe.ExpectColumnValuesToBeBetween(column="price", min_value=0.5, max_value=3.5),
    gxe.ExpectColumnValuesToBeInSet(column="channel", value_set=[1, 2]),
    gxe.ExpectColumnDistinctValuesToEqualSet(column="channel", value_set=[1, 2]),
    gxe.ExpectColumnMeanToBeBetween(column="id", min_value=2.5, max_value=2.5),
    gxe.ExpectColumnMedianToBeBetween(column="id", min_value=2.5, max_value=2.5),
    gxe.ExpectColumnStdevToBeBetween(column="id", min_value=1.2, max_value=1.3),
    gxe.ExpectColumnQuantileValuesToBeBetween(column="id", quantile_ranges=quantiles),
    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="id", column_B="channel", or_equal=True),
    gxe.ExpectCompoundColumnsToBeUnique(column_list=["id", "channel"]),
    gxe.ExpectColumnUniqueValueCountToBeBetween(column="channel", min_value=2, max_value=2),
    gxe.ExpectColumnMaxToBeBetween(column="id", min_value=100),  # does not hold
)
sql = f"SELECT channel, count(*) AS n FROM {table} GROUP BY channel"
grouped = source.add_query_asset("query", query=sql).add_batch_definition_whole_table("all")
results = [batch.validate(expectation) for expectation in EXPECTED]
results.append(grouped.get_batch().validate(gxe.ExpectTableRowCountToEqual(value=2)))
found = {
    "asked": len(results),
    "do not hold": [r.expectation_config.type for r in results if not r.success],
    "not computed": [
        text for r in results if "'raised_exception': True" in (text := str(r.exception_info))
    ],
}
print(json.dumps(found))

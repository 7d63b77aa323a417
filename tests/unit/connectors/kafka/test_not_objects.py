"""Goal: whoever infers columns of records that are not JSON objects is told what they look like."""

from __future__ import annotations

import pytest

from seamline.connectors.kafka.formats.infer import infer_json
from seamline.errors import INFERENCE_FAILED, SeamlineError


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ([], "the topic has no records", "Produce one first"),
        ([None, None], "all 2 sampled records have a key at most", "--columns-from"),
        ([b"1,web,2.5"], "looks like CSV of 3 fields: '1,web,2.5'", "--format csv."),
        ([b"1;web"], "looks like CSV of 2 fields", "--csv-separator ';'."),
        ([b"1\tweb"], "looks like CSV of 2 fields", "--csv-separator $'\\t'."),
        ([b'[{"a": 1}, {"a": 2}]'], "is a JSON array", "one record for each"),
        ([b'{"a": 1}\n{"a": 2}'], "is several JSON objects", "one record for each"),
        ([b"{'a': 1}"], "has single quotes", "double quotes"),
        ([b'{"a": 1'], "not whole or not correct", "producer"),
        ([b'{"_id": ObjectId("65a")}'], "MongoDB's shell", "$oid"),
        ([b"17"], "is a single JSON value: '17'", "--format string"),
        ([b'"text"'], "is a single JSON value", "--format string"),
        ([b"{}"], "is an object without keys", "--schema"),
        ([b"hello"], "is text: 'hello'", "--format string"),
        ([b" "], "is empty", "--format string"),
        ([b"<order/>"], "looks like XML", "--format string"),
        ([b"\0\0\0\0\x07\x02\x04"], "with the id 7", "--format avro, protobuf"),
        ([b"Obj\x01\x04"], "is a file of Avro", "single records"),
        ([b"\xff\x01\x02"], "is binary: ff 01 02", "--value-schema"),
        ([None, b"x" * 100], "…", "--format string"),
    ],
)
def test_what_a_record_looks_like(values: list[bytes | None], message: str, hint: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        infer_json(values)
    assert caught.value.code is INFERENCE_FAILED
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_one_object_is_enough() -> None:
    assert [c.name for c in infer_json([b"1,2", b'{"a": 1}', None]).columns] == ["a"]

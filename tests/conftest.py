"""Fixtures of all suites. The embedded stack is started once, when the first test asks for it."""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import shutil
import signal
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support import offline, slt
from support.gateway import Gateway
from support.java import SHORT_LIVED_JAVA
from support.stack import Stack
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

os.environ.update(SHORT_LIVED_JAVA)
# a shell that starts the tests in its background has programs ignore Ctrl-C; tests press it
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="fill expected halves of text tests")
    parser.addoption("--seed", type=int, help="run this one history of the simulation")


ONE_PASS = frozenset(
    f"test_{name}"
    for name in (
        *("changes", "clients", "console", "creating", "errors", "exactness"),
        *("merging", "names", "slt", "tiering", "tokens"),
    )
)
"""Modules whose tests on real parts belong to `make test`; those of all others are long proofs."""


SAMPLED_TESTS = {
    "test_a_change_log_is_its_database": 3,
    "test_a_header_that_says_nothing_is_refused": 3,
    "test_a_row_is_the_same_in_both_tiers": 4,
    "test_a_signed_token_says_who_asks": 2,
    "test_a_sink_or_a_stream_is_a_second_writer": 3,
    "test_a_subscript_counts_as_its_dialect_does": 8,
    "test_a_table_goes_from_hand_to_hand": 2,
    "test_a_table_in_the_shape_of_a_writer_needs_no_words": 4,
    "test_a_table_partitioned_in_any_way_gets_its_rows": 6,
    "test_a_token_that_is_not_right_is_refused": 5,
    "test_a_unified_table_is_dropped": 2,
    "test_a_waiting_statement_ends_without_a_runner": 2,
    "test_a_wrong_statement": 3,
    "test_cancel_at_any_moment": 3,
    "test_canceled_by_somebody_else": 2,
    "test_columns_follow_any_history": 3,
    "test_columns_follow_the_numbers_of_fields": 9,
    "test_ctrl_c": 3,
    "test_each_writer_speaks_of_his_own_snapshots_only": 2,
    "test_every_interleaving_with_a_read_or_with_tiering": 3,
    "test_every_query_sees_the_newest_of_each_key": 6,
    "test_every_sequence_of_a_few_events": 2,
    "test_every_single_comparison_is_exact_at_its_edges": 3,
    "test_every_source_can_tell_every_setting": 6,
    "test_every_type_and_its_null": 2,
    "test_fault_03_exact_numbers_are_compared_exactly_whatever_their_scale": 3,
    "test_fault_03_files_older_than_a_promotion_are_not_left_out": 3,
    "test_fault_03_no_file_is_left_out_that_holds_a_row_of_the_answer": 6,
    "test_fault_03_no_segment_is_left_out_that_holds_a_row_of_the_answer": 6,
    "test_fault_03_what_is_pushed_keeps_the_rows_of_the_condition": 10,
    "test_fault_03_whatever_json_holds_is_read_or_refused_by_name": 5,
    "test_fault_04_a_follower_goes_on_and_nobody_waits_for_it_meanwhile": 4,
    "test_fault_04_a_table_that_fails_comes_back_and_stops_no_other": 4,
    "test_fault_08_clients_that_take_their_time_starve_nobody": 2,
    "test_fault_10_a_token_outlives_a_change_of_policy": 2,
    "test_fault_13_a_commit_keeps_what_is_to_be_retained": 4,
    "test_fault_17_build_sides_of_every_size": 6,
    "test_fault_17_joins_over_keys_of_every_type": 6,
    "test_fault_17_lists_of_literals": 12,
    "test_fault_18_in_every_dialect": 8,
    "test_fault_20_what_fails_alone_is_null": 6,
    "test_fault_20_what_is_not_allowed_has_a_name": 6,
    "test_fault_24_a_file_that_is_none_is_named": 3,
    "test_fault_24_a_gateway_that_cannot_start_says_why": 3,
    "test_fault_24_a_java_that_is_too_old_is_named": 2,
    "test_fault_24_output_that_has_no_room_is_named": 3,
    "test_fault_27_a_command_loads_what_it_uses": 27,
    "test_fault_28_a_file_outside_of_its_table_is_not_read": 5,
    "test_fault_30_what_a_broken_table_fails_with_has_a_name": 3,
    "test_fault_31_a_dotted_name_is_what_it_must_be": 3,
    "test_functions_of_a_catalog_need_execute": 2,
    "test_honest_tables_name_files_elsewhere_when_the_configuration_says_so": 4,
    "test_hot_and_cold_rows_pass_the_same_filters": 9,
    "test_large_statements_are_answered": 6,
    "test_many_rows_and_none": 9,
    "test_no_row_that_the_predicate_keeps_is_lost": 3,
    "test_others_have_an_answer_or_a_name": 3,
    "test_right_answers_have_no_violation": 4,
    "test_schemas_may_be_met_in_any_order": 3,
    "test_spark_gets_chains_that_are_not_deep": 4,
    "test_versions_of_messages_may_be_met_in_any_order": 4,
    "test_the_row_around_is_as_good_as_a_literal": 8,
    "test_what_a_setting_does_not_take_is_named": 6,
    "test_what_fails_writes_nothing": 3,
    "test_what_grows_with_every_letter_is_refused": 9,
    "test_what_is_cut_out_of_a_table_reads_as_itself": 3,
    "test_what_is_given_out_is_the_table_at_its_seam": 3,
    "test_what_is_remembered_is_what_a_join_finds": 9,
    "test_what_is_too_large_says_so": 3,
    "test_what_needs_too_much_memory_fails_alone": 4,
    "test_what_one_may_not_see_is_not_there": 2,
    "test_what_would_disagree_with_the_topic_is_refused": 4,
    "test_who_lets_a_schema_say_the_columns_follows_it": 3,
}
"""Tests of many variants alike, that add up: of so many variants one is for `make test`, and the
others are proofs."""

SAMPLED_PROOFS = {
    "test_a_foreign_hand": 8,
    "test_a_gap_that_is_declared_is_still_there": 3,
    "test_a_self_join_sees_one_cut": 2,
    "test_a_write_through_spark_is_refused": 5,
    "test_batches_are_merged": 2,
    "test_every_way_gives_the_same_rows": 12,
    "test_fault_01_no_reader_gives_rows_of_another_log": 8,
    "test_fault_05_every_reader_gives_records_of_any_time": 4,
    "test_fault_07_what_is_given_out_can_be_loaded_after_every_change": 15,
    "test_fault_17_joins_over_keys_of_every_type": 3,
    "test_fault_20_correlated_subqueries": 3,
    "test_fault_29_every_reader_gives_the_same_rows": 7,
    "test_foreground_ends_with_its_broker": 3,
    "test_foreign_commit": 2,
    "test_interrupted_up_leaves_no_process": 4,
    "test_keys_and_values_of_every_format": 4,
    "test_no_reader_misses_a_key_whose_record_is_compacted_away": 3,
    "test_nobody_is_kept_out": 2,
    "test_query_that_went_wrong_once_on_spark": 3,
    "test_readers_get_in_with_each_proof": 3,
    "test_readers_give_the_records_of_the_seam": 4,
    "test_the_demo_ends_all_exact": 2,
    "test_the_interface_is_as_it_is_described": 3,
    "test_values_that_are_one_column": 4,
    "test_virtual_snapshots_hide_what_was_replaced": 2,
}
"""Proofs of many variants alike, that take long: of so many variants one is a proof, and the
others are for `make soak`."""


LONG = frozenset({"test_newest", "test_readers", "test_explorer", "test_simulator"})
"""Modules of minutes each, which begin first: the last one to end would end alone."""


def _has(item: pytest.Item, *marks: str) -> bool:
    return any(item.get_closest_marker(mark) for mark in marks)


def _sample(items: list[pytest.Item], every: Mapping[str, int], mark: pytest.MarkDecorator) -> None:
    """Marks all but one of so many variants of a test."""
    met = collections.Counter[str]()
    for item in items:
        function = item.name.partition("[")[0]
        if function in every:
            if met[function] % every[function]:
                item.add_marker(mark)
            met[function] += 1


def pytest_collection_finish() -> None:
    """Keeps the collector of garbage from looking through all tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts tests on real parts into those of `make test` and the long proofs; long ones first."""
    prove, soak = pytest.mark.prove, pytest.mark.soak
    for item in items:
        if _has(item, "integration", "spark") and item.path.stem not in ONE_PASS:
            item.add_marker(prove)
    _sample([item for item in items if not _has(item, "prove", "soak")], SAMPLED_TESTS, prove)
    _sample([item for item in items if _has(item, "prove")], SAMPLED_PROOFS, soak)
    items.sort(key=lambda item: item.path.stem not in LONG)


class OneStack(LoadFileScheduling):  # type: ignore[misc]
    """Shares modules out between workers; one worker has all that need the stack."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "stack" if pathlib.PurePath(file).stem in ONE_PASS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """`--dist loadgroup` is `OneStack`; other ways to share out are left as they are."""
    return OneStack(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how much of tests/slt was asked, and by which route."""
    asked = collections.Counter[str]()
    for report in terminalreporter.getreports("passed"):
        for name, count in report.user_properties if report.when == "call" else ():
            if name.startswith(slt.ASKED):
                asked[name.removeprefix(slt.ASKED)] += count
    if asked:
        routes = ", ".join(f"{count:,} by {route}" for route, count in asked.items())
        terminalreporter.write_line(f"tests/slt: {asked.total():,} queries answered ({routes})")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A real broker, catalog and warehouse in one folder."""
    directory = tmp_path_factory.mktemp("stack")
    running = Stack(directory)
    try:
        yield running
    finally:
        running.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def gateway(stack: Stack) -> Iterator[Gateway]:
    """A gateway over the stack, in this process, with both engines."""
    running = Gateway(stack.config)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="session")
def offline_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with an empty catalog and a cluster that never answers: enough for most of it."""
    running = Gateway(offline.config(tmp_path_factory.mktemp("offline")))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be filled."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def name() -> str:
    """A name no other test uses, for topics and tables."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty folder."""
    return tmp_path

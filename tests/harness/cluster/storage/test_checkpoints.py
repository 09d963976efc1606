"""Checkpoint files: what Kafka writes is read back, everything else is refused by file and line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.harness.cluster.storage.checkpoints import (
    CheckpointError,
    parse_leader_epochs,
    parse_offsets,
)
from tests.harness.cluster.storage.checkpoint_files import format_leader_epochs, format_offsets

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
numbers = st.integers(0, 2**31 - 1)


@given(st.dictionaries(st.tuples(topics, numbers), st.integers(0, 2**63 - 1), max_size=5))
def test_offsets_come_back(offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offsets("f", format_offsets(offsets)) == offsets


@given(st.dictionaries(numbers, numbers, max_size=5))
def test_leader_epochs_come_back(entries: dict[int, int]) -> None:
    chain = tuple(zip(sorted(entries), sorted(entries.values()), strict=True))
    assert parse_leader_epochs("f", format_leader_epochs(chain)) == chain


def test_an_empty_file_holds_nothing() -> None:
    assert parse_offsets("f", "") == {}
    assert parse_leader_epochs("f", "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n0\n", "f, line 1: version 1, expected 0"),
        ("x\n0\n", "f, line 1: version is 'x'"),
        ("0\n", "f, line 2: missing, expected the number of entries"),
        ("0\n2\nt 0 1\n", "f, line 2: 2 entries announced, 1 lines follow"),
        ("0\n1\nt 0 1\nt 1 1\n", "f, line 2: 1 entries announced, 2 lines follow"),
        ("0\n1\nt 0\n", "f, line 3: 't 0', expected 'topic partition offset'"),
        ("0\n1\nt 0  1\n", "f, line 3: 't 0  1', expected"),
        ("0\n2\nt 0 1\nt -1 1\n", "f, line 4: partition is '-1', expected a whole number of 0 or more"),
        ("0\n1\nt 0 ٣\n", "f, line 3: offset is '٣'"),
        ("0\n2\nt 0 1\nt 0 2\n", "f, line 4: t-0 occurs twice"),
    ],
)
def test_offsets_that_kafka_would_not_write_are_refused(text: str, message: str) -> None:
    with pytest.raises(CheckpointError) as refusal:
        parse_offsets("f", text)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n1\n0\n", "f, line 3: '0', expected 'epoch start-offset'"),
        ("0\n2\n3 0\n2 5\n", "f, line 4: epoch 2 from 5 on is older than the line before, epoch 3 from 0 on"),
        ("0\n2\n1 5\n2 4\n", "f, line 4: epoch 2 from 4 on is older"),
    ],
)
def test_epochs_that_kafka_would_not_write_are_refused(text: str, message: str) -> None:
    with pytest.raises(CheckpointError) as refusal:
        parse_leader_epochs("f", text)
    assert message in str(refusal.value)


@given(st.text(alphabet="0123456789 -t\n", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_offsets, parse_leader_epochs):
        with suppress(CheckpointError):
            parse("f", text)

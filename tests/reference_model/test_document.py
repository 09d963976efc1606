"""docs/model.md is what the model says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_chaos.reference_model import document, predict_cached
from kafka_chaos.reference_model.document import groups, lanes, transactions
from kafka_chaos.reference_model.document.tables import numbered
from kafka_chaos.reference_model.explore.exploration import explore
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.transactions.rules import V2

WRITTEN = Path(__file__).parents[2] / "docs" / "model.md"


def written() -> str:
    return WRITTEN.read_text("utf-8")


@pytest.mark.parametrize(
    "section", [document.introduction, lanes.lockstep, document.omissions], ids=lambda section: section.__name__
)
def test_a_section_is_up_to_date(section: object) -> None:
    assert "\n".join(section()) in written()  # type: ignore[operator]


@pytest.mark.parametrize("faults", [(), ("kill",)], ids=str)
def test_a_table_of_predictions_is_up_to_date(faults: tuple[str, ...]) -> None:
    assert "\n".join(lanes.prediction_table(faults)) in written()


def test_the_rules_of_transactions_are_up_to_date() -> None:
    assert "\n".join(transactions.introduction()) in written()
    assert "\n".join(transactions.broken()) in written()


@pytest.mark.parametrize("name", ["requests are late", "brokers fail, and nothing acknowledged is lost"])
def test_a_row_of_transactions_is_up_to_date(name: str) -> None:
    assert transactions.row(V2, name, **transactions.SITUATIONS[name]) in written()


def test_the_rules_of_groups_are_up_to_date() -> None:
    assert "\n".join(groups.introduction()) in written()
    assert "\n".join(groups.broken()) in written()


@pytest.mark.parametrize(("commits", "is_loop"), [("before", False), ("after", True)])
def test_a_row_of_groups_is_up_to_date(commits: str, is_loop: bool) -> None:
    name = "brokers fail, and nothing acknowledged is lost"
    assert groups.row(commits, is_loop, name, **groups.SITUATIONS[name]) in written()


@pytest.mark.slow
def test_every_row_of_groups_is_up_to_date() -> None:
    assert "\n".join(groups.section()) in written()


@pytest.mark.slow
def test_every_row_of_transactions_is_up_to_date() -> None:
    assert "\n".join(transactions.section()) in written()


def test_what_upgrades_change_is_up_to_date() -> None:
    assert "\n".join(lanes.upgrades(predict_cached)) in written()


@pytest.mark.parametrize("protocol", ["truncate-to-high-watermark", pytest.param("kip101", marks=pytest.mark.slow)])
def test_the_first_breach_is_told_as_it_is_found(protocol: str) -> None:
    found = explore(PROTOCOLS[protocol], document.SCOPE, until=frozenset({"followers_agree"}))
    trace = found.invariants["followers_agree"][1]
    assert "\n".join(numbered(trace)) in written()


@pytest.mark.slow
def test_the_whole_document_is_up_to_date() -> None:
    assert document.document() == written()

"""docs/model.md is what the model says today."""

from pathlib import Path

import model_page
import pytest

from kafka_chaos.reference_model.explore.exploration import explore
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.transactions.rules import V2

WRITTEN = Path(__file__).parents[2] / "docs" / "model.md"
NOTHING_FAILS_BUT_BROKERS = "brokers fail, and nothing acknowledged is lost"
SLOW = ("explorations", "assumptions", "transactions", "groups")
"""Tables that are searched for longer than shipped answers take."""


def written() -> str:
    return WRITTEN.read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "introduction",
        "predictions",
        "traces",
        "lockstep",
        "upgrades",
        "omissions",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_a_section_is_up_to_date(name: str) -> None:
    section = model_page.page(name).strip()
    assert section.startswith(("# The", "## "))
    assert section in written()


@pytest.mark.xdist_group("transactions")
def test_rows_of_transactions_and_groups_are_up_to_date() -> None:
    for name in ("requests are late", NOTHING_FAILS_BUT_BROKERS):
        assert model_page.transaction_row(V2, name) in written()
    settings = model_page.OF_GROUPS[NOTHING_FAILS_BUT_BROKERS]
    for commits, is_loop in (("before", False), ("after", True)):
        assert model_page.group_row(commits, is_loop, NOTHING_FAILS_BUT_BROKERS, settings) in written()


def test_the_first_breach_is_told_as_it_is_found() -> None:
    name = "truncate-to-high-watermark"
    found = explore(PROTOCOLS[name], model_page.SCOPE, until=frozenset({"followers_agree"}))
    trace = found.invariants["followers_agree"][1]
    assert "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(trace, 1)) in written()


@pytest.mark.slow
def test_the_whole_page_is_up_to_date() -> None:
    assert model_page.page() == written()

"""The section of docs/model.md on transactions, from the rules and from what a search finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.reference_model.document.tables import (
    MAX_STATES,
    exhausted,
    head_of_marks,
    marks,
    meanings,
    named,
    numbered,
)
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.anomalies import CHECKS
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, Question, stories_with
from kafka_chaos.reference_model.transactions.rules import BROKEN, V1, V2, Kind, Rules

SITUATIONS = {
    "requests are late": {},
    "brokers fail, and nothing acknowledged is lost": {"brokers_may_fail": True},
    "partitions may lose what is acknowledged": {"brokers_may_fail": True, "data_may_lose": True},
    "so may __transaction_state (power loss)": {
        "brokers_may_fail": True,
        "data_may_lose": True,
        "states_may_be_lost": True,
    },
    "several producers, brokers fail": {"brokers_may_fail": True, "several_producers": True},
}


def section() -> Iterator[str]:
    """The whole section."""
    yield from introduction()
    for rules in (V1, V2):
        for name, settings in SITUATIONS.items():
            yield row(rules, name, **settings)
    yield ""
    yield from broken()
    yield ""
    yield from late_end()


def introduction() -> Iterator[str]:
    """What is asked, what counts as an anomaly, and the head of the table."""
    yield "## Transactions"
    yield ""
    yield "`kafka-chaos predict --transactional` answers for a lane whose producers use transactions. What a log may"
    yield "lose comes from the lane's prediction above; `transactions/` searches what that costs transactions, and all"
    yield "that needs no loss. Protocol `v1` is that of clients before 4.0 and of librdkafka, `v2` that of KIP-890."
    yield ""
    yield from meanings("anomaly", CHECKS, "holds when")
    yield ""
    yield "`x`: permitted, empty: forbidden; transactions of several records, over several partitions. A cycle needs"
    yield "nothing to fail: Kafka does not isolate the transactions of producers beside each other."
    yield ""
    yield from head_of_marks(("protocol", "what happens"), CHECKS, states=True)


def row(rules: Rules, name: str, **settings: bool) -> str:
    """What one protocol may show in one situation."""
    found = exhausted(TRANSACTIONS.examine(Question(rules, **settings), Budget(MAX_STATES)), f"{rules.name}, {name}")
    return f"| `{rules.name}` | {name} | {marks(CHECKS, found.stories)} | {found.states} |"


def broken() -> Iterator[str]:
    """The negative controls."""
    yield "### Protocols without one rule"
    yield ""
    yield "A test finds these anomalies in each, so that the tables above are no empty promise."
    yield ""
    yield "| without | shows at least |"
    yield "| --- | --- |"
    for name, protocol in BROKEN.items():
        yield f"| {name} | {named(protocol.shows)} |"


def late_end() -> Iterator[str]:
    """The trace of KAFKA-17754."""
    yield "### A late EndTxn (`KAFKA-17754`)"
    yield ""
    yield "With protocol `v1`, the shortest way to a `torn_transaction` without a fault:"
    yield ""
    stories = stories_with(replace(V1, late=frozenset(Kind)), True, True)
    yield from numbered(stories[TransactionAnomaly.TORN_TRANSACTION])

"""The section of docs/model.md on consumer groups and loops, from the rules and from what a search finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka_chaos.contract.groups import AFTER, COMMITS, IN_TRANSACTION, OFFSETS, GroupAnomaly
from kafka_chaos.reference_model.document.tables import (
    MAX_STATES,
    exhausted,
    head_of_marks,
    marks,
    meanings,
    named,
    numbered,
)
from kafka_chaos.reference_model.groups.anomalies import CHECKS
from kafka_chaos.reference_model.groups.examine import GROUPS, Question
from kafka_chaos.reference_model.groups.rules import BROKEN, COOPERATIVE_RULES, EAGER_RULES, PROTOCOL_RULES
from kafka_chaos.reference_model.search import Budget

SITUATIONS: Mapping[str, Mapping[str, Any]] = {
    "members join, leave, and are too slow": {"leave": True},
    "a member crashes": {"crash": True},
    "a static member crashes": {"crash": True, "is_static": True},
    "brokers fail, and nothing acknowledged is lost": {"brokers_may_fail": True},
    "`__consumer_offsets` may lose its end (power loss)": {"brokers_may_fail": True, "offsets_may_be_lost": True},
}
OF_GROUPS: Mapping[str, Mapping[str, Any]] = {"the topic may lose what was read": {"source_may_lose": True}}
OF_LOOPS: Mapping[str, Mapping[str, Any]] = {"the output may lose what is acknowledged": {"output_may_lose": True}}
OF_TRANSACTIONS: Mapping[str, Mapping[str, Any]] = {"transactions may be torn": {"ends_may_tear": True}}


def section() -> Iterator[str]:
    """The whole section."""
    yield from introduction()
    for commits in COMMITS:
        for name, settings in {**SITUATIONS, **OF_GROUPS}.items():
            yield row(commits, False, name, **settings)
    for offsets in OFFSETS:
        of_offsets = OF_TRANSACTIONS if offsets == IN_TRANSACTION else {}
        for name, settings in {**SITUATIONS, **OF_LOOPS, **of_offsets}.items():
            yield row(offsets, True, name, **settings)
    yield ""
    yield from broken()
    yield ""
    yield from slow_member()


def introduction() -> Iterator[str]:
    """What is asked, what counts as an anomaly, and the head of the table."""
    yield "## Consumer groups and loops"
    yield ""
    yield "`kafka-chaos predict --group` answers for a lane that a consumer group reads, `--loop` for the output of a"
    yield "consume-transform-produce loop. What a log may lose comes from the lane's prediction above, how a"
    yield "transaction may end from `transactions/`; `groups/` searches what that costs groups, and all that needs no"
    yield "loss. That a plain group processes a record twice is no anomaly: it is what at-least-once means."
    yield ""
    yield from meanings("anomaly", CHECKS, "holds when")
    yield ""
    names = named(rules.name for rules in PROTOCOL_RULES)
    yield f"`x`: permitted, empty: forbidden, by each of the rules {names}; `states` are those of all"
    yield "three. In every row, any member may be removed for being slow, without knowing it."
    yield ""
    yield from head_of_marks(("who reads", "commits", "what happens"), CHECKS, states=True)


def row(commits: str, is_loop: bool, name: str, **settings: bool) -> str:
    """What a way to commit may show in one situation; all rules must agree."""
    questions = [Question(rules, commits, is_loop, are_removed=True, **settings) for rules in PROTOCOL_RULES]
    found = [exhausted(GROUPS.examine(one, Budget(MAX_STATES)), f"{commits}, {name}") for one in questions]
    if len({frozenset(one.stories) for one in found}) > 1:
        raise RuntimeError(f"the rules differ in what they show, and need a row each: {commits}, {name}")
    who, states = "loop" if is_loop else "group", sum(one.states for one in found)
    return f"| {who} | `{commits}` | {name} | {marks(CHECKS, found[0].stories)} | {states} |"


def broken() -> Iterator[str]:
    """The negative controls."""
    yield "### Groups without one rule"
    yield ""
    yield "A test finds these anomalies in each, so that the table above is no empty promise."
    yield ""
    yield "| without | rules | shows at least |"
    yield "| --- | --- | --- |"
    for name, protocol in BROKEN.items():
        yield f"| {name} | `{protocol.rules.name}` | {named(protocol.shows)} |"


def slow_member() -> Iterator[str]:
    """Two traces: a loop that is too slow, and a rule that is missing."""
    yield "### A member that is too slow"
    yield ""
    yield "In a loop that commits `after` its outputs, the shortest way to `processed_twice`:"
    yield ""
    question = Question(EAGER_RULES, AFTER, is_loop=True, are_removed=True)
    yield from numbered(GROUPS.examine(question, Budget(MAX_STATES)).stories[GroupAnomaly.PROCESSED_TWICE])
    yield ""
    yield "In a group, the shortest way to `owned_twice`, where the coordinator's log loses its end:"
    yield ""
    lossy = Question(COOPERATIVE_RULES, AFTER, are_removed=True, offsets_may_be_lost=True)
    yield from numbered(GROUPS.examine(lossy, Budget(MAX_STATES)).stories[GroupAnomaly.OWNED_TWICE])

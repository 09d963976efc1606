"""Writes docs/model.md from the model itself: what it covers, what it found, and the trace of each breach.

`python docs/model_page.py` takes some minutes, because it explores every protocol variant in full. The page depends on
the model alone, so that a test can check that it is up to date. Only the sentences of `model.md.jinja` are written by
hand.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.groups import AFTER, COMMITS, IN_TRANSACTION, OFFSETS, GroupAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model import predict_cached
from kafka_chaos.reference_model.compare import FAULT_SETS, LANES, RULES, UNCLEAN_RULE, Change, Cluster, compare
from kafka_chaos.reference_model.explore.core import CoreScope
from kafka_chaos.reference_model.explore.exploration import INVARIANTS, STEP_INVARIANTS, Exploration, explore
from kafka_chaos.reference_model.groups import anomalies as group_anomalies
from kafka_chaos.reference_model.groups import rules as group_rules
from kafka_chaos.reference_model.groups.examine import GROUPS
from kafka_chaos.reference_model.groups.state import Setup as GroupSetup
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.lane.lockstep_phase import CUT_THEN_KILL
from kafka_chaos.reference_model.machine import Findings
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.predict.result import Prediction
from kafka_chaos.reference_model.protocol import PROTOCOLS, eligible, isr, leaders, quorum, sequences, truncation
from kafka_chaos.reference_model.protocol.axioms import AXIOMS
from kafka_chaos.reference_model.protocol.known_defects import ALL_DEFECTS, MODELLED_DEFECTS
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions import anomalies as transaction_anomalies
from kafka_chaos.reference_model.transactions import rules as transaction_rules
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, stories_with
from kafka_chaos.reference_model.transactions.state import Setup as TransactionSetup

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))

from cluster_invariants import CLUSTER_INVARIANTS  # noqa: E402
from negative_controls import GROUPS_WITHOUT, TRANSACTIONS_WITHOUT  # noqa: E402

SCOPE = CoreScope(brokers=3, records=2, leader_epochs=3)
UPGRADES = (("3.6.2/zookeeper", "3.9.1/zookeeper"), ("3.9.1/zookeeper", "4.3.1/kraft"))
"""Clusters before and after."""
MODULES = {
    "protocol": ("truncation", "leaders", "isr", "eligible", "quorum", "sequences", "rules"),
    "explore": ("core",),
    "lockstep": ("brokers", "clients", "producers", "controller", "environment", "processes", "quorum", "transactions"),
    "lane": ("idempotence", "exchanges", "replication", "membership", "faults", "bounds"),
    "predict": ("transactional", "grouped"),
    "transactions": ("rules", "coordinator", "partitions", "producers", "environment", "examine"),
    "groups": ("rules", "members", "coordinator", "examine"),
}
"""The modules whose docstrings the last section has, by folder."""
TRACES: tuple[tuple[str, Anomaly, tuple[str, ...]], ...] = (
    ("acks=1", Anomaly.LOST_WRITE, ("pause",)),
    ("acks=1", Anomaly.OFFSET_MISMATCH, ("pause",)),
    ("acks=all, min ISR 2", Anomaly.DUPLICATE, ()),
    ("acks=all, min ISR 2", Anomaly.REORDERED, ()),
    ("acks=all, min ISR 2", Anomaly.LOST_WRITE, ("power-loss",)),
    ("acks=all, min ISR 2, unclean election", Anomaly.TRUNCATED_READ, ("kill",)),
    ("acks=all, idempotent, unclean election", Anomaly.DUPLICATE, ("kill", "kill")),
)
_BROKERS, _DATA, _STATES = {"failovers": 1}, {"data_may_be_lost": True}, {"states_may_be_lost": True}
OF_TRANSACTIONS: Mapping[str, Mapping[str, Any]] = {
    "requests are late": {},
    "brokers fail, and nothing acknowledged is lost": _BROKERS,
    "partitions may lose what is acknowledged": _BROKERS | _DATA,
    "so may __transaction_state (power loss)": _BROKERS | _DATA | _STATES,
    "several producers, brokers fail": _BROKERS | {"ids": (0, 0, 1)},
}
OF_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    "members join, leave, and are too slow": {"leaves": 1},
    "a member crashes": {"crashes": 1},
    "a static member crashes": {"crashes": 1, "is_static": True},
    "brokers fail, and nothing acknowledged is lost": _BROKERS,
    "`__consumer_offsets` may lose its end (power loss)": _BROKERS | {"offsets_may_be_lost": True},
}
OF_GROUPS = {**OF_MEMBERS, "the topic may lose what was read": {"source_may_lose": True}}
OF_LOOPS = {**OF_MEMBERS, "the output may lose what is acknowledged": {"output_may_lose": True}}
OF_LOOPS_IN_TRANSACTIONS = {**OF_LOOPS, "transactions may be torn": {"ends_may_tear": True}}
MAX_STATES = 5_000_000
SECTIONS = (
    *("introduction", "explorations", "predictions", "assumptions", "transactions", "groups", "traces", "lockstep"),
    *("upgrades", "omissions"),
)


def page(*sections: str) -> str:
    """The page; of these sections alone, if any are named."""
    return _template().render(sections=sections or SECTIONS)


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"meaning": meaning, "capital": lambda text: text[:1].upper() + text[1:]}
    environment.globals |= {
        "protocols": PROTOCOLS,
        "protocol_rules": protocol_rules,
        "scope": SCOPE,
        "axioms": AXIOMS,
        "core_invariants": {**INVARIANTS, **STEP_INVARIANTS},
        "cluster_invariants": CLUSTER_INVARIANTS,
        "explorations": explorations,
        "breaches": breaches,
        "defects": MODELLED_DEFECTS.values(),
        "others": [defect for id, defect in ALL_DEFECTS.items() if id not in MODELLED_DEFECTS],
        "traces": TRACES,
        "lanes": LANES,
        "fault_sets": FAULT_SETS,
        "checks": CHECKS,
        "marks": marks,
        "named": named,
        "predicted": predicted,
        "permitted": permitted,
        "in_lockstep": in_lockstep,
        "upgrades": upgrades,
        "cut_then_kill": CUT_THEN_KILL,
        "modules": modules,
        "release_rules": (*(name for name, _ in RULES[1:]), UNCLEAN_RULE),
        "transactions": SimpleNamespace(
            CHECKS=transaction_anomalies.CHECKS, BROKEN=TRANSACTIONS_WITHOUT, rows=transaction_rows, late_end=late_end
        ),
        "groups": SimpleNamespace(
            CHECKS=group_anomalies.CHECKS,
            BROKEN=GROUPS_WITHOUT,
            PROTOCOLS=[rules.name for rules in group_rules.PROTOCOL_RULES],
            rows=group_rows,
            slow_loop=slow_loop,
            lossy_coordinator=lossy_coordinator,
        ),
    }
    return environment.get_template("model.md.jinja")


# --- Text ------------------------------------------------------------------------------------------------------------


def meaning(value: Any) -> str:
    """A docstring on one line."""
    return " ".join((value.__doc__ or "").split())


def marks(anomalies: Iterable[Any], found: Collection[Any]) -> str:
    """`x` in the column of each anomaly that was found."""
    return " | ".join("x" if anomaly in found else " " for anomaly in anomalies)


def named(names: Iterable[str]) -> str:
    """Names as code in a sentence or a cell."""
    return ", ".join(f"`{name}`" for name in names)


# --- The protocol ----------------------------------------------------------------------------------------------------


def protocol_rules() -> dict[str, Any]:
    """The rules that all levels of the model ask, by name."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": rule
        for module in (truncation, leaders, isr, eligible, quorum, sequences)
        for name, rule in vars(module).items()
        if callable(rule) and getattr(rule, "__module__", "") == module.__name__ and name.islower()
    }


def explorations() -> list[Exploration]:
    """Every variant, explored in full. Raises `RuntimeError` where a scope is too large."""
    found = [explore(protocol, SCOPE) for protocol in PROTOCOLS.values()]
    for one in found:
        if not one.complete:
            raise RuntimeError(f"the scope of {one.protocol} was not exhausted")
    return found


def breaches(exploration: Exploration) -> dict[tuple[str, ...], list[str]]:
    """The traces of a variant's breaches, each with all invariants that it breaks at once."""
    broken: dict[tuple[str, ...], list[str]] = {}
    for name, (holds, trace) in exploration.invariants.items():
        if holds is False:
            broken.setdefault(trace, []).append(name)
    return broken


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The modules whose docstrings name what is left out, by path."""
    for folder, names in MODULES.items():
        for name in names:
            yield (
                f"{folder}/{name}.py",
                import_module(".".join(("kafka_chaos.reference_model", *folder.split("/"), name))),
            )


# --- Lanes -----------------------------------------------------------------------------------------------------------


def predicted(name: str, faults: tuple[str, ...] = ()) -> Prediction:
    """The prediction for a lane of the standard matrix."""
    return predict_cached(replace(LANES[name], faults=faults))


def permitted(name: str, faults: tuple[str, ...]) -> list[Anomaly]:
    """The anomalies that a search finds reachable in a lane under these faults."""
    return _with_status(predicted(name, faults), Status.PERMITTED)


def in_lockstep(name: str, status: str) -> list[Anomaly]:
    """The anomalies with a status in a lane that lives through the lock-step phase."""
    return _with_status(predict(LANES[name], lockstep=CUT_THEN_KILL), Status(status))


def _with_status(prediction: Prediction, status: Status) -> list[Anomaly]:
    return [anomaly for anomaly in CHECKS if prediction.status(anomaly) is status]


def upgrades() -> Iterator[tuple[str, str, tuple[Change, ...]]]:
    """The changes from one cluster to another."""
    for before, after in UPGRADES:
        yield before, after, compare(Cluster.parse(before), Cluster.parse(after), predict_cached).changes


# --- Transactions and groups -----------------------------------------------------------------------------------------


def transaction_rows() -> Iterator[str]:
    """The anomalies that each protocol permits in each situation."""
    for rules in (transaction_rules.V1, transaction_rules.V2):
        for name in OF_TRANSACTIONS:
            yield transaction_row(rules, name)


def transaction_row(rules: transaction_rules.Rules, name: str) -> str:
    """The anomalies that one protocol permits in one situation."""
    question = TransactionSetup(rules, **OF_TRANSACTIONS[name])
    found = _exhausted(TRANSACTIONS.examine(question, Budget(MAX_STATES)), f"{rules.name}, {name}")
    return f"| `{rules.name}` | {name} | {marks(transaction_anomalies.CHECKS, found.stories)} | {found.states} |"


def late_end() -> tuple[str, ...]:
    """The trace of KAFKA-17754."""
    late = replace(transaction_rules.V1, late_kinds=frozenset(transaction_rules.Kind))
    return stories_with(late, 2, 2)[TransactionAnomaly.TORN_TRANSACTION]


def group_rows() -> Iterator[str]:
    """The anomalies that each way to commit permits in each situation."""
    for commits in COMMITS:
        for name, settings in OF_GROUPS.items():
            yield group_row(commits, False, name, settings)
    for offsets in OFFSETS:
        situations = OF_LOOPS_IN_TRANSACTIONS if offsets == IN_TRANSACTION else OF_LOOPS
        for name, settings in situations.items():
            yield group_row(offsets, True, name, settings)


def group_row(commits: str, is_loop: bool, name: str, settings: Mapping[str, Any]) -> str:
    """The anomalies that a way to commit permits in one situation; all rules must agree."""
    questions = [GroupSetup(rules, commits, is_loop, removals=1, **settings) for rules in group_rules.PROTOCOL_RULES]
    found = [_exhausted(GROUPS.examine(one, Budget(MAX_STATES)), f"{commits}, {name}") for one in questions]
    if len({frozenset(one.stories) for one in found}) > 1:
        raise RuntimeError(f"the rules differ in what they show, and need a row each: {commits}, {name}")
    who, states = "loop" if is_loop else "group", sum(one.states for one in found)
    return f"| {who} | `{commits}` | {name} | {marks(group_anomalies.CHECKS, found[0].stories)} | {states} |"


def slow_loop() -> tuple[str, ...]:
    """A loop that is too slow."""
    question = GroupSetup(group_rules.EAGER_RULES, AFTER, is_loop=True, removals=1)
    return GROUPS.examine(question, Budget(MAX_STATES)).stories[GroupAnomaly.PROCESSED_TWICE]


def lossy_coordinator() -> tuple[str, ...]:
    """A group whose coordinator's log loses its end."""
    question = GroupSetup(group_rules.COOPERATIVE_RULES, AFTER, removals=1, offsets_may_be_lost=True)
    return GROUPS.examine(question, Budget(MAX_STATES)).stories[GroupAnomaly.OWNED_TWICE]


def _exhausted(found: Findings[Any], what: str) -> Findings[Any]:
    if not found.complete:
        raise RuntimeError(f"the scope was not exhausted: {what}")
    return found


if __name__ == "__main__":
    (HERE / "model.md").write_text(page(), "utf-8")

"""Compares two clusters: for which lanes of a standard matrix the predictions differ, and which rules are the cause.

To find the rule, a lane that differs is also predicted on each cluster of `RULES` between the two. If both
clusters have the same rules, one prediction serves for both. The predictions for the standard matrix ship with the
package and are printed in docs/model.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.errors import LaneError, UsageFailure, quoted
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import METADATA_MODES, ZOOKEEPER, elects_from_elr, may_elect_uncleanly
from kafka_chaos.reference_model.predict.result import Prediction
from kafka_chaos.reference_model.protocol.rules import Rules, rules_in

_TABLES = package_toml(__package__, "compare.toml")
LANES = {name: Lane(**keys) for name, keys in _TABLES["lanes"].items()}

FAULT_SETS: tuple[tuple[str, ...], ...] = ((), *((kind,) for kind in FAULT_KINDS), ("kill", "kill"))
"""The standard matrix has each of the `LANES` under each of these sets of faults."""

Predictor = Callable[[Lane], Prediction]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster on which lanes are compared; `elr` None is the default of a new cluster of this version."""

    version: str
    mode: str
    elr: bool | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """A cluster written as VERSION/MODE or VERSION/MODE/elr=true|false; raises `UsageFailure` for anything else."""
        version, _, rest = text.partition("/")
        mode, _, elr = rest.partition("/")
        switches = {"": None, "elr=true": True, "elr=false": False}
        if mode not in METADATA_MODES or elr not in switches:
            modes = " or ".join(METADATA_MODES)
            expected = f"expected VERSION/MODE, such as 4.3.1/kraft, or VERSION/MODE/elr=true|false; MODE is {modes}"
            raise UsageFailure(f"{quoted(text)}: {expected}")
        cluster = cls(version, mode, switches[elr])
        try:
            cluster.place(Lane(lane="any"))
        except LaneError as error:
            raise UsageFailure(f"{quoted(text)}: {error}") from error
        return cluster

    def place(self, lane: Lane) -> Lane:
        """The lane as it is on this cluster; raises `LaneError` if the cluster can't have the lane."""
        return replace(lane, kafka_version=self.version, metadata_mode=self.mode, elr=self.elr)

    @property
    def rules(self) -> Rules:
        """The rules that the cluster follows."""
        return rules_in(self.version, self.mode, self.elr)

    @property
    def elects_from_elr(self) -> bool:
        """Whether the cluster also elects leaders from the eligible leader replicas."""
        return elects_from_elr(self.version, self.mode, self.elr)

    @property
    def elects_uncleanly(self) -> bool:
        """Whether `unclean.leader.election.enable` has an effect on this cluster."""
        return may_elect_uncleanly(self.version, self.mode)

    def __str__(self) -> str:
        return f"{self.version}/{self.mode}" + ("" if self.elr is None else f"/elr={str(self.elr).lower()}")


RULES = tuple((name, Cluster.parse(cluster)) for name, cluster in _TABLES["rules"].items())
"""The rules in the order in which Kafka got them, each with a cluster that has this rule and all rules before it."""

UNCLEAN_RULE = "KAFKA-12670: unclean.leader.election.enable has an effect in KRaft mode (since 3.9)"
"""Not one of `RULES`, since its place in their order depends on the mode: with ZooKeeper, every version has it."""

NEW_CLUSTERS_ONLY = (
    "A cluster that was created before 4.1 gets eligible leader replicas when they are switched on:\n"
    "kafka-features.sh upgrade --feature eligible.leader.replicas.version=1"
)


@dataclass(frozen=True, slots=True)
class Change:
    """Anomalies whose status changes in the same way between two clusters, in one lane with one set of faults.

    `why`: by anomaly, the steps to it on the cluster where it is not forbidden.
    """

    lane: str
    faults: tuple[str, ...]
    before: Status
    after: Status
    rules: tuple[str, ...]
    why: Mapping[Anomaly, tuple[str, ...]]

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --compare --json`."""
        return {
            "lane": self.lane,
            "faults": list(self.faults),
            "anomalies": {str(anomaly): list(steps) for anomaly, steps in self.why.items()},
            "before": str(self.before),
            "after": str(self.after),
            "rules": list(self.rules),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes between two clusters, with notes. `asked`: how many combinations of lane and faults it covers."""

    before: Cluster
    after: Cluster
    changes: tuple[Change, ...]
    asked: int
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --compare --json`."""
        return {
            "before": str(self.before),
            "after": str(self.after),
            "asked": self.asked,
            "changes": [change.to_json() for change in self.changes],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        changed = len({(change.lane, change.faults) for change in self.changes})
        kept = "every status stays" if not changed else "every other status stays"
        total = f"{changed} of {self.asked} combinations of lane and faults change; {kept} as it is."
        return "\n".join([*self._table(), total, *self.notes])

    def _table(self) -> Iterator[str]:
        if not self.changes:
            return
        heads = ("lane", "faults", "anomalies", str(self.before), str(self.after), "rule")
        rows = [
            (
                change.lane,
                ", ".join(change.faults) or "none",
                ", ".join(change.why),
                str(change.before),
                str(change.after),
                "; ".join(change.rules),
            )
            for change in self.changes
        ]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for row in (heads, tuple("-" * width for width in widths), *rows):
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield ""


def compare(before: Cluster, after: Cluster, predict: Predictor) -> Comparison:
    """The changes in the standard matrix from one cluster to the other. `predict`: predicts a lane.

    Raises what `predict` raises.
    """
    changes: list[Change] = []
    asked = 0
    left_out = []
    for name, lane in LANES.items():
        try:
            before.place(lane), after.place(lane)  # Only for the `LaneError` that they may raise.
        except LaneError as error:
            left_out.append(f'Not compared: "{name}" ({error}).')
            continue
        for faults in FAULT_SETS:
            asked += 1
            changes += _changes(name, replace(lane, faults=faults), before, after, predict)
    caveats = dict.fromkeys([*before.rules.limits, *after.rules.limits])
    switched = (NEW_CLUSTERS_ONLY,) if after.elects_from_elr and not before.elects_from_elr else ()
    return Comparison(before, after, tuple(changes), asked, (*left_out, *caveats, *switched))


def _changes(name: str, lane: Lane, before: Cluster, after: Cluster, predict: Predictor) -> Iterator[Change]:
    if not (before.elects_uncleanly or after.elects_uncleanly):  # Then the lane's setting changes no answer.
        lane = replace(lane, unclean_leader_election=False)
    have_same_rules = before.rules == after.rules and before.elects_uncleanly == after.elects_uncleanly
    old = predict(before.place(lane))
    new = old if have_same_rules else predict(after.place(lane))
    changes: dict[tuple[Status, Status, tuple[str, ...]], dict[Anomaly, tuple[str, ...]]] = {}
    differing = [anomaly for anomaly in Anomaly if old.status(anomaly) is not new.status(anomaly)]
    path = list(_path(before, after)) if differing else []
    predictions = [predict(cluster.place(lane)) for _, cluster in path]
    for anomaly in differing:
        statuses = [old.status(anomaly), *(prediction.status(anomaly) for prediction in predictions)]
        changed = [left is not right for left, right in pairwise(statuses)]
        rules = tuple(rule for (rule, _), is_cause in zip(path, changed, strict=True) if is_cause)
        permitting = old if new.status(anomaly) is Status.FORBIDDEN else new
        key = old.status(anomaly), new.status(anomaly), rules
        changes.setdefault(key, {})[anomaly] = permitting.anomalies[anomaly].why
    for (was, becomes, rules), why in changes.items():
        yield Change(name, lane.faults, was, becomes, rules, why)


def _path(before: Cluster, after: Cluster) -> Iterator[tuple[str, Cluster]]:
    """The rules that change from one cluster to the other, in order, each with a cluster on which it has changed."""
    if before.elects_uncleanly != after.elects_uncleanly:
        # With ZooKeeper, a cluster of this version has the same rules except `UNCLEAN_RULE`.
        if after.elects_uncleanly:
            yield UNCLEAN_RULE, replace(before, mode=ZOOKEEPER)
            yield from _path(replace(before, mode=ZOOKEEPER), after)
        else:
            yield from _path(before, replace(after, mode=ZOOKEEPER))
            yield UNCLEAN_RULE, after
        return
    stages = [cluster.rules for _, cluster in RULES]
    first, last = stages.index(before.rules), stages.index(after.rules)
    if first <= last:
        yield from RULES[first + 1 : last + 1]
    else:
        for stage in range(first, last, -1):
            yield RULES[stage][0], RULES[stage - 1][1]

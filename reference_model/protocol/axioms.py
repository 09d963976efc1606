"""Assumptions of the model about brokers and clients, taken for granted: each excludes one anomaly.

The lane's states have no consumer positions, no holes in logs and no high watermark over time. So the search can't
decide these anomalies. They are forbidden in every lane but those whose faults break the axiom, and `predict` answers
with the axiom and with the conditions under which it does not hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.files import package_toml


@dataclass(frozen=True, slots=True)
class Axiom:
    """An assumption, which `reason` states. `fails`: the condition under which it does not hold.

    `documents`: where Kafka documents it. `broken_by`: the fault kinds that bring about the condition in `fails`.
    """

    reason: str
    fails: str
    documents: str
    broken_by: frozenset[str] = frozenset()

    def sentences(self) -> tuple[str, ...]:
        """The axiom as an answer to why an anomaly is forbidden."""
        return (
            f"An axiom of the model, not a result of the search: {self.reason} ({self.documents}).",
            f"It does not hold where {self.fails}.",
        )

    def why_broken(self, faults: Iterable[str]) -> tuple[str, ...]:
        """Why the anomaly is permitted in a lane with these faults; empty where the axiom holds."""
        breaking = sorted(self.broken_by.intersection(faults))
        return (f"With {', '.join(breaking)}, an axiom of the model fails: {self.fails}.",) if breaking else ()


AXIOMS: Mapping[Anomaly, Axiom] = {
    Anomaly(name): Axiom(**{**entry, "broken_by": frozenset(entry.get("broken_by", ()))})
    for name, entry in package_toml(__package__, "axioms.toml").items()
}

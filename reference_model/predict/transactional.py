"""Predicts what the transactions of a lane may show, by asking the model of transactions (`transactions/`).

The model of replication decides what a log may lose (`prediction.py`). Then `transactions/` searches for anomalies that
follow from such losses, and for those that need no loss. Clients speak the first protocol of transactions, `v1`, except
Kafka's Java client since 4.0 on brokers since 4.0, which speaks `v2` (KIP-890).

The anomalies of records have the answers of the idempotent lane, with these differences:

- Markers occupy offsets, and the records of aborted transactions stay in the log.
- A transactional producer never repeats a record in doubt in a new producer epoch: it aborts, and the client purges
  what is queued and in flight before it asks the coordinator for its next epoch (KIP-360). So the known defect
  librdkafka-4953 does not apply. Nor does a renewed epoch cause duplicates or a change of order: where the
  idempotent lane permits them for that reason, the answer permits more than a correct client shows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.reference_model.clients.rules import has_epoch_per_transaction
from kafka_chaos.reference_model.machine import Findings, Story
from kafka_chaos.reference_model.predict.defects import DefectTrace, by_anomaly
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, answers_from
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.reference_model.transactions.examine import stories_with
from kafka_chaos.reference_model.transactions.rules import V1_UNVERIFIED, V2, Kind, Rules, v1_in
from kafka_chaos.reference_model.transactions.state import Setup

NOTES: Mapping[str, str] = package_toml(__package__, "notes.toml")["transactions"]
"""Notes on what the answer for an anomaly of records means in a lane with transactions."""
NOTE_ON_RENEWAL = (
    "A transactional producer aborts where this story has the producer renew its epoch: the answer is that of the "
    "idempotent lane, and permits more than a correct client shows."
)


def question_of(
    lane: Lane, transactional: Transactional, *, brokers_fail: bool, data_may_be_lost: bool, states_may_be_lost: bool
) -> Setup:
    """The lane's question to the model of transactions. The offsets of a loop are a partition of their own."""
    return Setup(
        rules_of_transactions(lane),
        # The transactional id of each incarnation of a producer: two incarnations share the first id.
        ids=(0, 0, 1) if transactional.producers > 1 else (0, 0),
        size=min(transactional.size, 2),
        partitions=2 if lane.partitions > 1 or lane.loop is not None else 1,
        failovers=int(brokers_fail),
        data_may_be_lost=data_may_be_lost,
        states_may_be_lost=states_may_be_lost,
    )


def rules_of_transactions(lane: Lane) -> Rules:
    """The protocol between a lane's client and brokers. With `v1`, brokers may or may not verify transactions."""
    if has_epoch_per_transaction(lane):
        return V2
    return V1_UNVERIFIED if lane.verifies_transactions is False else v1_in(lane.version)


def with_notes(anomalies: Mapping[AnyAnomaly, AnomalyPrediction]) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The answers for the anomalies of records, with notes on what transactions change about them."""
    return {
        anomaly: replace(answer, why=(*answer.why, *_notes(anomaly, answer))) for anomaly, answer in anomalies.items()
    }


def _notes(anomaly: AnyAnomaly, answer: AnomalyPrediction) -> Story:
    if anomaly in NOTES:
        return (NOTES[anomaly],)
    by_renewal = anomaly in (Anomaly.DUPLICATE, Anomaly.REORDERED) and answer.status is not Status.FORBIDDEN
    return (NOTE_ON_RENEWAL,) if by_renewal else ()


def answers_to(
    question: Setup, findings: Findings[TransactionAnomaly], lane: Lane
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The prediction for every anomaly of transactions, from a complete search."""
    why_forbidden = f"scope exhausted: none of {findings.states} states of the transactional machine shows it"
    return answers_from(TransactionAnomaly, findings.stories, why_forbidden, by_anomaly(_traces(question, lane)))


def _traces(question: Setup, lane: Lane) -> Iterator[tuple[TransactionAnomaly, DefectTrace]]:
    """The anomalies that the known defects which concern a lane make reachable."""
    for id, variant in VARIANTS.items():
        if MODELLED_DEFECTS[id].concerns(lane):
            rules = variant(question.rules)
            for anomaly, why in stories_with(rules, question.size, question.partitions).items():
                yield anomaly, DefectTrace((MODELLED_DEFECTS[id],), why)


def _with_late(kind: Kind) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, late_kinds=rules.late_kinds | {kind})


VARIANTS: Mapping[str, Callable[[Rules], Rules]] = {
    "KAFKA-17754": _with_late(Kind.END),
    "KAFKA-14402": _with_late(Kind.PRODUCE),
    "KAFKA-5385": lambda rules: replace(rules, commits_incomplete=True),
}
"""How each defect changes the rules. KAFKA-17754: EndTxn names producer id and epoch. However late it arrives, it
ends the transaction that is open under them by then. KAFKA-14402: a record that arrives after its transaction has ended
opens one that nobody will end. KAFKA-5385: a transaction is committed without records that were given up."""

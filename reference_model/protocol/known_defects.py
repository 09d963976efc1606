"""Known defects of clients and brokers (known_defects.toml), each with its ticket and the rule that it breaks.

A prediction states what Kafka promises. Where a known defect of the software in use makes a forbidden anomaly reachable
nevertheless, the prediction names the defect beside the status, which it does not change.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.reference_model.clients import rules as clients


def _is_only_idempotent(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent and use no transactions."""
    return lane.idempotence and lane.transactional is None


def _is_promised_order(lane: Lane) -> bool:
    """Whether a lane's producers use no transactions, and are promised that the order of their records is kept."""
    return lane.acks != "0" and lane.transactional is None and (lane.idempotence or lane.max_in_flight == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """A defect: the `rule` that it breaks, the `precondition` without which it does not occur, and its `effect`.

    `versions`: the versions of the component in which it was seen. `shown`: the experiment or scenario that shows it,
    or why none does. `error`: part of the message with which a client ends because of it. `log`: a regular expression
    for the lines of a client's log that show the precondition, with a group `text`, and maybe `topic`, `partition`.
    `explains`: the statement in verification/statements/defects/ that says which findings it explains, if any.
    """

    id: str
    ticket: str
    component: str
    versions: str
    rule: str
    precondition: str
    effect: str
    shown: str
    error: str = ""
    log: str = ""
    explains: str = ""

    def concerns(self, lane: Lane) -> bool:
        """Whether a lane uses the software that has the defect, and the model knows the rule that it breaks."""
        return self.id in CONCERNS_LANE and CONCERNS_LANE[self.id](lane)

    def to_json(self) -> dict[str, str]:
        """The form of `predict --json`."""
        shown = ("id", "ticket", "component", "versions", "rule", "precondition", "effect")
        return {name: getattr(self, name) for name in shown}


ALL_DEFECTS: Mapping[str, KnownDefect] = {
    id: KnownDefect(id=id, **values) for id, values in package_toml(__package__, "known_defects.toml").items()
}
WITHOUT_EPOCH_CHECK: Mapping[str, str] = {
    "sarama-2365": clients.SARAMA,
    "aiokafka-kip-320": clients.AIOKAFKA,
    "kafka-python-2978": clients.KAFKA_PYTHON,
    "kafkajs-818": clients.KAFKAJS,
    "librdkafka-4122": clients.LIBRDKAFKA,
}
"""The defects of consumers that compare no leader epochs (KIP-320), with their clients."""


def _checks_no_epochs(client: str, lane: Lane) -> bool:
    """Whether a lane's consumers are this `client` and don't notice that the log below their position was replaced."""
    return (lane.client or "").partition(" ")[0] == client and not clients.checks_epochs(lane)


def _moves_over_ends(lane: Lane) -> bool:
    """Whether a lane's client is librdkafka 2.2 to 2.13.1, which moves past each partition end that it reports."""
    client, _, version = (lane.client or "").partition(" ")
    return client == clients.LIBRDKAFKA and (2, 2) <= tuple(map(int, re.findall(r"\d+", version)[:3])) < (2, 13, 2)


CONCERNS_LANE: Mapping[str, Callable[[Lane], bool]] = {
    "librdkafka-4953": lambda lane: _is_only_idempotent(lane) and clients.rules_of_client(lane).renews_for_all,
    # Since KIP-360, brokers take any first batch of a producer that they do not know.
    "KAFKA-15591": lambda lane: _is_only_idempotent(lane) and release(lane.version) >= (2, 5),
    "kafkajs-1005": lambda lane: (
        _is_only_idempotent(lane) and lane.max_in_flight > 1 and clients.rules_of_client(lane).numbers_anew
    ),
    "kafkajs-822": lambda lane: (
        lane.acks == "0" and lane.max_in_flight > 1 and clients.rules_of_client(lane).repeats_unanswered
    ),
    "sarama-2619": lambda lane: _is_promised_order(lane) and clients.rules_of_client(lane).returns_late,
    "sarama-3354": lambda lane: _is_only_idempotent(lane) and clients.rules_of_client(lane).leaves_unnumbered,
    # Only where several transactions may follow each other in one producer epoch.
    "KAFKA-17754": lambda lane: lane.transactional is not None and not clients.has_epoch_per_transaction(lane),
    # Leaders verify transactions since 3.6 (KIP-890), unless they are told not to.
    "KAFKA-14402": lambda lane: (
        lane.transactional is not None and (lane.verifies_transactions is False or release(lane.version) < (3, 6))
    ),
    "KAFKA-5385": lambda lane: lane.transactional is not None and clients.rules_of_client(lane).commits_incomplete,
    "KAFKA-14397": lambda lane: _is_only_idempotent(lane) and clients.rules_of_client(lane).renews_after_error,
    # Before 2.5, the coordinator refuses a transaction that begins earlier, by its wall clock, than the last one.
    "KAFKA-8803": lambda lane: lane.transactional is not None and release(lane.version) < (2, 5),
    # Groups and loops of the harness read in batches, and ask to be told of partition ends: the defect needs both.
    "librdkafka-4844": lambda lane: (lane.group or lane.loop) is not None and _moves_over_ends(lane),
    **{id: partial(_checks_no_epochs, client) for id, client in WITHOUT_EPOCH_CHECK.items()},
}
"""For each defect, whether a lane uses the software that has it. `ClientRules` explains the flags of clients."""
MODELLED_DEFECTS: Mapping[str, KnownDefect] = {id: ALL_DEFECTS[id] for id in CONCERNS_LANE}
"""The defects whose rule the model knows. Predictions and verdicts name only these."""


def require_known(ids: Iterable[str], option: str) -> None:
    """Raise `UsageFailure` for the first id that no modelled defect has; `option` is where the ids were given."""
    for id in ids:
        if id not in MODELLED_DEFECTS:
            raise UsageFailure(f"{option}: {quoted(id)}: expected known defects out of {', '.join(MODELLED_DEFECTS)}")

"""The observations that a file names, such as `log(2)`: they come from the last step, logs, clients or brokers."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.conformance.broker_client import ScenarioClient
from kafka_chaos.conformance.scenario.groups.stage import GroupStage
from kafka_chaos.conformance.scenario.record import json_value
from kafka_chaos.conformance.scenario.shares.stage import ShareStage
from kafka_chaos.conformance.scenario.steps.controllers import REQUEST_OBSERVATIONS
from kafka_chaos.conformance.scenario.steps.faults import clean_shutdown_file
from kafka_chaos.conformance.scenario.steps.stage import Stage
from kafka_chaos.conformance.scenario.steps.upgrades import UPGRADE_OBSERVATIONS
from kafka_chaos.conformance.scenario.transactions.stage import ID, TransactionsStage
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import LEADER_FETCH_VERSION, error_name
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, CONTROLLER_ID_BASE
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lockstep.observation import GIVEN, REFUSED, Observation

_NAME = re.compile(r"([^()]+)(?:\((.*)\))?")
_WHOLE_ISR = re.compile(r"ISR updated to \d,\d,\d\b")
"""A log line about an ISR of three brokers, which KRaft mode lists in any order."""

AnyStage = Stage | TransactionsStage


def observe(stage: AnyStage, name: str) -> Any:
    """The value of an observation as JSON, by a name such as `log(2)`.

    The name is looked up in `OBSERVED_BY`, then among the stage's attributes and methods, then in the last observation.
    """
    word, arguments = _parse(name)
    functions = (by_name[word] for kind, by_name in OBSERVED_BY.items() if isinstance(stage, kind) and word in by_name)
    if (function := next(functions, None)) is not None:
        return json_value(function(stage, *arguments))
    attribute = getattr(stage, word.replace(" ", "_"), None)
    if attribute is not None:
        return json_value(attribute(*arguments) if callable(attribute) else attribute)
    return field_of(stage.observation, name)


def field_of(observation: Observation, name: str) -> Any:
    """A field of an observation, such as `leader`, or of one of its replicas, such as `role(1)`."""
    word, brokers = _parse(name)
    return json_value(getattr(observation.replicas[brokers[0]] if brokers else observation, word.replace(" ", "_")))


def _parse(name: str) -> tuple[str, list[Any]]:
    """The word of an observation's name, and the arguments in its parentheses."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    arguments = match[2].split(", ") if match[2] else []
    return match[1], [int(argument) if argument.isdecimal() else argument for argument in arguments]


def _shut_down_cleanly(stage: Stage, broker: int) -> bool:
    """Whether a broker has the file that a clean shutdown leaves behind, with the broker epoch."""
    text = clean_shutdown_file(stage.node(broker))
    return text is not None and int(json.loads(text)["brokerEpoch"]) > 0


def _checkpoint_line(stage: Stage, broker: int) -> str:
    text = stage.node(broker).read_file(f"{BROKER_DATA}/replication-offset-checkpoint").decode()
    return next((line for line in text.splitlines() if line.startswith(f"{stage.topic} ")), "")


# --- Answers of brokers ------------------------------------------------------------------------------------------


def _refusals(stage: Stage, broker: int) -> list[str]:
    """A broker's answers to requests that only a leader serves: Produce, ListOffsets, Fetch (version 10)."""
    with stage.connect(broker) as client:
        codes = (
            client.produce(stage.topic, "astray")[0],
            client.latest_offset(stage.topic)[0],
            client.fetch(stage.topic, version=LEADER_FETCH_VERSION).error,
        )
    return [error_name(code) for code in codes]


def _latest_offset(stage: Stage, broker: int) -> tuple[str, int]:
    error, offset = stage.answer_from(broker, lambda client: client.latest_offset(stage.topic))
    return error_name(error), offset


def _answer_to_unfenced_fetch(stage: Stage, broker: int) -> tuple[str, int]:
    """The error and the high watermark in the answer to a Fetch request (version 12) without a leader epoch."""
    answer = stage.answer_from(broker, lambda client: client.fetch(stage.topic))
    return error_name(answer.error), answer.high_watermark


def _answer_in_named_epoch(stage: Stage, broker: int) -> str:
    """The error of a fetch from the leader that a broker names, in the leader epoch that the broker names."""
    named = stage.answer_from(broker, lambda client: client.metadata(stage.topic))
    fetch = partial(ScenarioClient.fetch, topic=stage.topic, leader_epoch=named.leader_epoch)
    return error_name(stage.answer_from(named.leader or broker, fetch).error)


def _describe_partition(stage: Stage) -> tuple[int | None, tuple[int, ...], list[int]]:
    """The leader, the replicas and the ISR of the partition, as an admin client gets them."""
    partition = stage.lease.admin.await_partitions(stage.topic)[0]
    return partition.leader, partition.replicas, sorted(partition.isr)


# --- Moments, as observations in seconds since the clock was started -------------------------------------------------


def moment_of(line: str) -> float:
    """The time in brackets with which a log line begins, in seconds since 1970."""
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()


def _nodes(stage: Stage, where: int | str) -> Sequence[Node]:
    """A broker or a controller by its number, `zookeeper`, or all `controllers`."""
    cluster = stage.lease.cluster
    if isinstance(where, int):
        return [stage.node(where) if where < CONTROLLER_ID_BASE else stage.controller_node(where)]
    return list((cluster.zookeepers if where == "zookeeper" else cluster.controllers).values())


def _log_lines(node: Node, since: float, *parts: str) -> list[str]:
    return [line for line in node.log(since=since).splitlines() if all(part in line for part in parts)]


def await_log_moment(stage: Stage, where: int | str, *parts: str) -> tuple[float, int]:
    """Wait until a node has logged a line with all `parts`; returns the line's moment and the node's number."""

    def find() -> tuple[float, int] | None:
        since, nodes = stage.clock_started, _nodes(stage, where)
        lines = ((moment_of(line), node.number) for node in nodes for line in _log_lines(node, since, *parts))
        return min(lines, default=None)

    moment, number = wait_until(find, f"{where} to log {' … '.join(parts)!r}", timeout=40, interval=0.2)
    return round(moment - stage.clock_started, 3), number


def _moment_in_metadata(stage: Stage) -> float:
    """When the partition's record was last written to the metadata, in seconds of the clock."""
    record = stage.lease.metadata.partition(stage.topic)
    return round((0 if record is None else record.written_ms or 0) / 1000 - stage.clock_started, 3)


_REPLICA_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    **REQUEST_OBSERVATIONS,
    **UPGRADE_OBSERVATIONS,
    "topic": lambda stage: stage.topic,
    "entries": lambda stage, broker: stage.replica(broker).log,
    "log starts": lambda stage: [stage.replica(broker).log_start for broker in stage.act.replicas],
    "segments": lambda stage, broker: stage.observer.files(broker).base_offsets,
    "error of a record without a key": lambda stage, broker: error_name(
        stage.answer_from(broker, lambda client: client.produce(stage.topic, "no key")[0])
    ),
    "topic config": lambda stage, topic, key: stage.lease.admin.configuration(ResourceType.TOPIC, topic)[key].value,
    "checkpoint line": _checkpoint_line,
    "checkpoint lines": lambda stage: {_checkpoint_line(stage, broker) for broker in stage.act.replicas},
    "acknowledged": lambda stage: stage.observation.acknowledged,
    "logs are equal": lambda stage, *brokers: len({tuple(stage.log(b)) for b in brokers or stage.act.replicas}) == 1,
    "sorted log": lambda stage, broker: sorted(stage.log(broker)),
    "beginning of log": lambda stage, broker, count: stage.log(broker)[:count],
    "leader epochs of log": lambda stage, broker: [epoch for _, _, epoch in stage.replica(broker).log or ()],
    "epochs are equal": lambda stage, one, other: stage.replica(one).epochs == stage.replica(other).epochs,
    "offsets": lambda stage: stage.acknowledged,
    "offset": lambda stage, record: stage.acknowledged[record],
    "sorted offsets": lambda stage, *records: sorted(stage.acknowledged[record] or 0 for record in records),
    "acknowledged records": lambda stage: [record for record, _ in stage.observation.acknowledged or ()],
    "is acknowledged": lambda stage, record: record in stage.acknowledged,
    "is read at": lambda stage, record, offset: stage.read()[offset : offset + 1] == [record],
    "number acknowledged": lambda stage: len(stage.observation.acknowledged or ()),
    "errors": lambda stage: [answer.error for answer in stage.clients.answers() if answer.error],
    "error": lambda stage, record: stage.answer_errors[record],
    "difference": lambda stage, name, number: field_of(stage.observation, name) - number,
    "is one of": lambda stage, name, *values: field_of(stage.observation, name) in values,
    "last refusal": lambda stage: [*stage.answer_errors.values()][-1],
    "answers": lambda stage: dict(stage.answer_counts),
    "followers answered": lambda stage, error: error in stage.answer_counts,
    "producer errors": lambda stage: sorted(set(stage.clients.errors())),
    "producer noticed": lambda stage, error: error in stage.clients.errors(),
    "refusals": _refusals,
    "latest offset": _latest_offset,
    "answer to Fetch 12": _answer_to_unfenced_fetch,
    "error of Fetch 12": lambda stage, broker: _answer_to_unfenced_fetch(stage, broker)[0],
    "answer in the epoch named by": _answer_in_named_epoch,
    "described": _describe_partition,
    "epoch file": lambda stage, broker: (
        stage.node(broker).read_file(f"{BROKER_DATA}/{stage.topic}-0/leader-epoch-checkpoint").decode()
    ),
    "batches": lambda stage, broker: [
        {"base offset": b.base_offset, "last offset": b.last_offset, "leader epoch": b.leader_epoch, "bytes": b.size}
        for b in stage.observer.files(broker).batches
    ],
    # Equal byte by byte.
    "batches are equal": lambda stage: (
        len({tuple(b.data for b in stage.observer.files(broker).batches) for broker in stage.act.replicas}) == 1
    ),
    "moment": lambda stage, where, *parts: await_log_moment(stage, where, *parts)[0],
    "moment in the metadata": _moment_in_metadata,
    "now": lambda stage: round(time.time() - stage.clock_started, 3),
    "who logged": lambda stage, where, *parts: await_log_moment(stage, where, *parts)[1],
    "logged": lambda stage, broker, *parts: _log_lines(stage.node(broker), stage.clock_started, *parts),
    "was logged": lambda stage, broker, *parts: bool(_log_lines(stage.node(broker), stage.clock_started, *parts)),
    "lines of controller": lambda stage, node, text: _log_lines(stage.controller_node(node), stage.clock_started, text),
    "rise": lambda stage, *moments: sorted(map(float, moments)) == [*map(float, moments)],
    "is past half of": lambda stage, moment, whole: 2 * float(moment) > float(whole),
    # The active controller and one of the two other controllers.
    "majority": lambda stage: sorted(
        sorted(stage.lease.profile.voters, key=lambda voter: voter != stage.observation.controller)[:2]
    ),
    "checkpointed": lambda stage: [stage.observer.files(broker).high_watermark for broker in stage.act.replicas],
    "line": lambda stage, broker, *parts: stage.await_line(broker, *parts, stage.topic),
    "lines": lambda stage, broker, text: _log_lines(stage.node(broker), stage.began, stage.topic, text),
    "line without topic": lambda stage, broker, *parts: stage.await_line(broker, *parts),
    "line of whole ISR": lambda stage, broker: stage.await_line(broker, _WHOLE_ISR, stage.topic),
    "leader named by": lambda stage, node: stage.answer_from(node, lambda client: client.metadata(stage.topic).leader),
    "was shut down cleanly": _shut_down_cleanly,
}
"""Observations that files can name, besides the attributes of `Stage`, `Observation` and `ReplicaObservation`."""


def _entry_names(stage: TransactionsStage, partition: int) -> list[str]:
    """The records and markers of a partition after the last step."""
    return [name for _, name, _ in stage.observed.partitions[partition].log]


_TRANSACTION_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    "error": lambda stage, producer: stage.clients.by_name[producer].error,
    "has another coordinator": lambda stage: stage.coordinator != stage.killed,
    "committed": lambda stage, partition=0: stage.observed.partitions[partition].read_committed,
    "uncommitted": lambda stage, partition=0: stage.observed.partitions[partition].read_uncommitted,
    "given": lambda stage: [stage.observed.partitions[0].read_committed, stage.observed.partitions[0].read_uncommitted],
    "log": lambda stage, partition=0: _entry_names(stage, partition),
    "stable": lambda stage, partition=0: [
        stage.observed.partitions[partition].last_stable_offset,
        stage.observed.partitions[partition].high_watermark,
    ],
    "transaction": lambda stage: [stage.observed.transactions[ID].state, stage.observed.transactions[ID].epoch],
    "an offset is pending": lambda stage: stage.observed.offsets is not None and stage.observed.offsets.pending,
    "end of log": lambda stage, partition, count: _entry_names(stage, partition)[-count:],
    "epochs of log": lambda stage, partition: [epoch for _, _, epoch in stage.observed.partitions[partition].log],
    "marker epochs": lambda stage, partition: [
        epoch for _, name, epoch in stage.observed.partitions[partition].log if name in ("COMMIT", "ABORT")
    ],
    "state": lambda stage: stage.observed.transactions[ID].state,
    "epoch of": lambda stage, producer: stage.observed.producers[producer].epoch,
    "line of leader": lambda stage, partition, *parts: stage.await_line(stage.leader(partition), *parts),
}
"""Observations of transactions, besides the attributes of `TransactionsStage`."""

_GROUP_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    "members": lambda stage: stage.group.members,
    "owners": lambda stage: stage.group.owners,
    "owner": lambda stage, partition: (stage.group.owners or (0,))[partition],
    "sorted owners": lambda stage: sorted(stage.group.owners or ()),
    "partition of": lambda stage, member: (stage.group.owners or ()).index(member),
    "other member": lambda stage, member: 3 - member,  # of members 1 and 2
    "has one of": lambda stage, partition, *members: (stage.group.owners or (0,))[partition] in members,
    "committed": lambda stage, *partitions: [
        offset for number, offset in enumerate(stage.group.committed or ()) if not partitions or number in partitions
    ],
    "given": lambda stage: stage.deed_offsets(GIVEN),
    "given to": lambda stage, member: stage.deed_offsets(GIVEN)[member],
    "was given to each": lambda stage, offset: [offset in given for given in stage.deed_offsets(GIVEN).values()],
    "refused": lambda stage, member: stage.deed_offsets(REFUSED)[member],
    "generation": lambda stage, member: stage.group.by_member[member].generation,
    "generations after the first": lambda stage: (stage.group.by_member[1].generation or 0) - 1,
    "last error": lambda stage, member: stage.members.errors(member)[-1],
    "anomalies": lambda stage: stage.group_model.anomalies(),
    "coordinator is no longer": lambda stage, broker: stage.coordinator != broker,
    "coordinator does not lead": lambda stage: stage.coordinator != stage.observation.leader,
}
"""Observations of a group and its members, besides the attributes of `GroupStage`."""

_SHARE_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    "start offset": lambda stage: stage.shares.start,
    "follower": lambda stage: next(broker for broker in stage.act.replicas if broker != stage.observation.leader),
    "given to": lambda stage, member: stage.given()[member],
    "leader is no longer": lambda stage, broker: stage.observation.leader not in (0, broker),
    "share coordinator is no longer": lambda stage, broker: stage.share_coordinator != broker,
}
"""Observations of a share group and its members, besides the attributes of `ShareStage`."""

OBSERVED_BY: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    GroupStage: _GROUP_OBSERVATIONS,
    ShareStage: _SHARE_OBSERVATIONS,
    TransactionsStage: _TRANSACTION_OBSERVATIONS,
    Stage: _REPLICA_OBSERVATIONS,
}
"""The observations that each kind of stage has. A subclass comes before `Stage`, since the first match counts."""

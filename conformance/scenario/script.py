"""Scenarios as data: acts and their steps in a YAML file, played by the methods of a stage.

A file has `scenarios` by id (`title`, `story`, `needs_zookeeper`, `acts`), the `clusters` that acts name (keys of
`ClusterProfile`), and `parts`: steps that acts share, with places such as {acks} for values. An act has the keys of
`Play.act`, or under `transactional` those of `transactional_act`; with `for`, it is played once for each mapping there,
whose values fill its places. With `group`, the keys of `Group`, a group of members reads its topic, after the steps
`before`; with `coordinator_last`, the group's coordinator is neither leader nor controller.

| a step | what it is |
| --- | --- |
| `kill: 1`, `{produce: m1, acks: "1"}` | a method of the stage, with these arguments and keys |
| `{expect: TEXT, leader: 2, log(1): [m1]}` | what is observed; with `eventually: true`, what it becomes |
| `{await: SENTENCE, log end(3): 3}` | a step that waits for an observation |
| `{fact: NAME, of: "line(1, Truncating)"}` | something to be recorded |
| `{roll: , then: {compact: {}}}` | with `then`, actions of the model that follow |
| `remember: {first: owner(0)}` | what is observed, as a value for the places of later steps |
| `until X dies`, `{until X dies: , acks: "1"}` | the steps of a part, with values for its places |

`when` leaves a step out of clusters to which it does not apply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_chaos.conformance.scenario.clusters import QUICK, STEADY, ClusterProfile
from kafka_chaos.conformance.scenario.groups.stage import GroupStage, coordinator_of_groups, group_on
from kafka_chaos.conformance.scenario.lockstep import LockStep
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.power_loss import clean_shutdown_file
from kafka_chaos.conformance.scenario.record import plain
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.conformance.scenario.transactions.stage import TransactionsStage, transactional_act
from kafka_chaos.contract.groups import Group
from kafka_chaos.harness.cluster.broker.error_codes import error_name
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.reference_model.lockstep.cluster_model import step as model_step
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation
from kafka_chaos.reference_model.lockstep.observation.groups import GIVEN, REFUSED

_PLACE = re.compile(r"\{([\w ]+)\}")
_OBSERVED = re.compile(r"([^()]+)(?:\((.*)\))?")
_OF_ACTS = frozenset(
    {"act", "cluster", "steps", "transactional", "group", "reads", "before", "coordinator_last"}
)  # fmt: skip
_WHOLE_ISR = re.compile(r"ISR updated to \d,\d,\d\b")
"""In KRaft mode in any order."""
_WHEN: Mapping[str, Callable[[ClusterProfile], bool]] = {
    "eligible": lambda profile: profile.elects_eligible,
    "not eligible": lambda profile: not profile.elects_eligible,
}


def play_acts(play: Play, acts: Sequence[Mapping[str, Any]], file: Mapping[str, Any]) -> None:
    """Play the acts of a scenario, in a file with these `clusters` and `parts`."""
    clusters = {name: ClusterProfile(**keys) for name, keys in file.get("clusters", {}).items()}
    clusters |= {"steady": STEADY, "quick": QUICK}
    for act in acts:
        for values in act.get("for", [{}]):
            filled = _filled({key: value for key, value in act.items() if key != "for"}, values)
            parts = file.get("parts", {})
            with _entered(play, clusters, filled) as stage:
                if "group" not in filled:
                    _Script(stage, parts).take(filled["steps"])
                    continue
                _Script(stage, parts).take(filled["before"])
                with group_on(stage, Group(**filled["group"]), **filled["reads"]) as group:
                    _Script(group, parts).take(filled["steps"])


def _entered(play: Play, clusters: Mapping[str, ClusterProfile], act: Mapping[str, Any]) -> AbstractContextManager[Any]:
    keys = {key: value for key, value in act.items() if key not in _OF_ACTS}
    cluster = act.get("cluster", "steady")
    profile = clusters[cluster] if isinstance(cluster, str) else ClusterProfile(**cluster)
    if "transactional" in act:
        return transactional_act(play, act["act"], profile=profile, **act["transactional"], **keys)
    if act.get("coordinator_last"):
        with play.cluster(profile) as lease:
            coordinator = coordinator_of_groups(lease)
        leader, other = (broker for broker in (1, 2, 3) if broker != coordinator)
        keys |= {"replicas": (leader, other, coordinator), "controller": other}
    return play.act(act["act"], profile=profile, **keys)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with its places filled; a text that is nothing but a place becomes the value itself."""
    if isinstance(value, Mapping):
        return {_filled(key, values): _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACE.fullmatch(value)
    if whole is not None and whole[1] in values:
        return values[whole[1]]
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), value)


AnyStage = Stage | TransactionsStage | GroupStage


@dataclass(frozen=True, slots=True)
class _Script:
    """Steps on a stage; `parts` by name, and what was remembered."""

    stage: AnyStage
    parts: Mapping[str, Any]
    values: dict[str, Any] = field(default_factory=dict)

    def take(self, steps: Sequence[Any]) -> None:
        """Take steps, one after the other; a step may stand for several."""
        for step in steps:
            if isinstance(step, list):
                self.take(step)
            else:
                self._take_one(_filled({step: None} if isinstance(step, str) else step, self.values))

    def _take_one(self, step: dict[str, Any]) -> None:
        when = step.pop("when", None)
        if when is not None and not _WHEN[when](_acted(self.stage).lease.profile):
            return
        verb = next(iter(step))
        value = step.pop(verb)
        match verb:
            case "expect":
                self._expect(value, step, eventually=step.pop("eventually", False))
            case "await":
                _acted(self.stage).await_seen(value, partial(_shows, step))
            case "fact":
                _acted(self.stage).fact(value, observe(self.stage, step["of"]))
            case "remember":
                self.values.update({name: observe(self.stage, one) for name, one in value.items()})
            case _ if verb in self.parts:
                self.take(_filled(self.parts[verb], step))
            case _:
                arguments = value if isinstance(value, list) else [] if value is None else [value]
                keys = {key.replace(" ", "_"): item for key, item in step.items()}
                if "then" in keys:
                    keys["then"] = [model_step(name, **values) for name, values in keys["then"].items()]
                _method(self.stage, verb)(*arguments, **keys)

    def _expect(self, text: str, observed: Mapping[str, Any], *, eventually: bool) -> None:
        def seen() -> Any:
            found = [observe(self.stage, name) for name in observed]
            return found[0] if len(found) == 1 else found

        expected = [plain(value) for value in observed.values()]
        wanted = expected[0] if len(expected) == 1 else expected
        if eventually:
            _acted(self.stage).expect_eventually(text, seen, wanted)
        else:
            _acted(self.stage).expect(text, seen(), wanted)


def _acted(stage: AnyStage) -> LockStep:
    return stage.stage if isinstance(stage, GroupStage) else stage


def _method(stage: AnyStage, verb: str) -> Callable[..., None]:
    """The step of a stage that a file names. Raises `LookupError` for one that it does not have."""
    for one in (stage, _acted(stage)):
        method: Callable[..., None] | None = getattr(one, verb.replace(" ", "_"), None)
        if callable(method) and not verb.startswith("_"):
            return method
    raise LookupError(f"{verb!r} is neither a step nor a part")


def observe(stage: AnyStage, name: str) -> Any:
    """What a file names, such as `log(2)`, as JSON has it: after the last step, or of a broker's log or a client."""
    word, arguments = _parsed(name)
    kind = next(kind for kind in _OBSERVED_BY if isinstance(stage, kind))
    named = _OBSERVED_BY[kind].get(word)
    if named is not None:
        return plain(named(stage, *arguments))
    own = getattr(stage, word.replace(" ", "_"), None)
    if own is not None:
        return plain(own(*arguments) if callable(own) else own)
    return observe(stage.stage, name) if isinstance(stage, GroupStage) else _of(_acted(stage).seen, name)


def _shows(wanted: Mapping[str, Any], seen: Observation) -> bool:
    return all(_of(seen, name) == value for name, value in wanted.items())


def _of(seen: Observation, name: str) -> Any:
    """A field of an observation, or of a replica, such as `role(1)`."""
    word, brokers = _parsed(name)
    return plain(getattr(seen.replicas[brokers[0]] if brokers else seen, word.replace(" ", "_")))


def _parsed(name: str) -> tuple[str, list[Any]]:
    found = _OBSERVED.fullmatch(name)
    assert found is not None, name
    arguments = found[2].split(", ") if found[2] else []
    return found[1], [int(one) if one.isdecimal() else one for one in arguments]


def _lines(stage: Stage, broker: int, text: str) -> list[str]:
    lines = stage.node(broker).log_since(stage.began).splitlines()
    return [line for line in lines if stage.topic in line and text in line]


def _named_by(stage: Stage, broker: int) -> int | None:
    with stage.ask(broker) as client:
        return client.metadata(stage.topic).leader


def _shut_down_cleanly(stage: Stage, broker: int) -> bool:
    """Whether there is the file that a clean shutdown leaves behind, with the broker epoch."""
    text = clean_shutdown_file(stage.node(broker))
    return text is not None and int(json.loads(text)["brokerEpoch"]) > 0


def _are_equal(stage: Stage, *brokers: int) -> bool:
    logs = [stage.log(broker) for broker in brokers or stage.act.replicas]
    return all(log == logs[0] for log in logs)


def _keyless(stage: Stage, broker: int) -> str:
    with stage.ask(broker) as leader:
        return error_name(leader.produce(stage.topic, "no key")[0])


def _checkpoint_line(stage: Stage, broker: int) -> str:
    text = stage.node(broker).read_file(f"{BROKER_DATA}/replication-offset-checkpoint").decode()
    return next((line for line in text.splitlines() if line.startswith(f"{stage.topic} ")), "")


_OF_REPLICAS: Mapping[str, Callable[..., Any]] = {
    "topic": lambda stage: stage.topic,
    "entries": lambda stage, broker: stage.replica(broker).log,
    "log starts": lambda stage: [stage.replica(broker).log_start for broker in stage.act.replicas],
    "segments": lambda stage, broker: stage.observer.files(broker).base_offsets,
    "error of a record without a key": _keyless,
    "topic config": lambda stage, topic, key: stage.lease.admin.topic_config(topic, key),
    "checkpoint line": _checkpoint_line,
    "checkpoint lines": lambda stage: {_checkpoint_line(stage, broker) for broker in stage.act.replicas},
    "acknowledged": lambda stage: stage.seen.acknowledged,
    "logs are equal": _are_equal,
    "sorted log": lambda stage, broker: sorted(stage.log(broker)),
    "beginning of log": lambda stage, broker, count: stage.log(broker)[:count],
    "leader epochs of log": lambda stage, broker: [epoch for _, _, epoch in stage.replica(broker).log or ()],
    "epochs are equal": lambda stage, one, other: stage.replica(one).epochs == stage.replica(other).epochs,
    "offsets": lambda stage: stage.acknowledged,
    "offset": lambda stage, record: stage.acknowledged[record],
    "sorted offsets": lambda stage, *records: sorted(stage.acknowledged[one] or 0 for one in records),
    "acknowledged records": lambda stage: [record for record, _ in stage.seen.acknowledged or ()],
    "number acknowledged": lambda stage: len(stage.seen.acknowledged or ()),
    "errors": lambda stage: [answer.error for answer in stage.clients.answers() if answer.error],
    "error": lambda stage, record: stage.refusals[record],
    "checkpointed": lambda stage: [stage.observer.files(broker).high_watermark for broker in stage.act.replicas],
    "line": lambda stage, broker, *parts: stage.await_line(broker, *parts, stage.topic),
    "lines": _lines,
    "line of whole ISR": lambda stage, broker: stage.await_line(broker, _WHOLE_ISR, stage.topic),
    "leader named by": _named_by,
    "was shut down cleanly": _shut_down_cleanly,
}
"""What a file may name beside what `Stage`, `Observation` and `ReplicaObservation` have."""

_OF_TRANSACTIONS: Mapping[str, Callable[..., Any]] = {
    "given": lambda stage: [stage.committed(), stage.uncommitted()],
    "an offset is pending": lambda stage: stage.now.offsets is not None and stage.now.offsets.pending,
    "end of log": lambda stage, partition, count: stage.log(partition)[-count:],
    "epochs of log": lambda stage, partition: [epoch for _, _, epoch in stage.now.partitions[partition].log],
    "marker epochs": lambda stage, partition: [
        epoch for _, name, epoch in stage.now.partitions[partition].log if name in ("COMMIT", "ABORT")
    ],
    "state": lambda stage: stage.transaction[0],
    "epoch of": lambda stage, producer: stage.now.producers[producer].epoch,
    "line of leader": lambda stage, partition, *parts: stage.await_line(stage.leader(partition), *parts),
}
"""The same for transactions, beside what `TransactionsStage` has."""

_OF_GROUPS: Mapping[str, Callable[..., Any]] = {
    "members": lambda group: group.seen.members,
    "owners": lambda group: group.seen.owners,
    "owner": lambda group, partition: (group.seen.owners or (0,))[partition],
    "sorted owners": lambda group: sorted(group.seen.owners or ()),
    "partition of": lambda group, member: (group.seen.owners or ()).index(member),
    "other member": lambda group, member: 3 - member,
    "has one of": lambda group, partition, *members: (group.seen.owners or (0,))[partition] in members,
    "committed": lambda group, *partitions: [
        at for number, at in enumerate(group.seen.committed or ()) if not partitions or number in partitions
    ],
    "given": lambda group: group.did(GIVEN),
    "given to": lambda group, member: group.did(GIVEN)[member],
    "was given to each": lambda group, offset: [offset in given for given in group.did(GIVEN).values()],
    "refused": lambda group, member: group.did(REFUSED)[member],
    "generation": lambda group, member: group.seen.each[member].generation,
    "generations after the first": lambda group: (group.seen.each[1].generation or 0) - 1,
    "last error": lambda group, member: group.members.errors(member)[-1],
    "anomalies": lambda group: group.model.anomalies(),
    "coordinator is no longer": lambda group, broker: group.coordinator != broker,
    "coordinator does not lead": lambda group: group.coordinator != group.stage.seen.leader,
}
"""The same for the members of a group, beside what `GroupStage` and `Stage` have."""

_OBSERVED_BY: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    GroupStage: _OF_GROUPS,
    TransactionsStage: _OF_TRANSACTIONS,
    Stage: _OF_REPLICAS,
}

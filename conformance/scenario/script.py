"""Scenarios as data: acts and their steps in a YAML file, played by the methods of a stage.

A file has `scenarios` by id (`title`, `story`, `needs_zookeeper`, `acts`), the `clusters` that acts name (keys of
`ClusterProfile`), and `parts`: steps that acts share, with placeholders such as {acks}. An act has the keys of
`Play.act`, or under `transactional` those of `transactional_act`. With a list `for` of mappings, it is played once for
each mapping, whose values fill its placeholders. With `group` (keys of `Group`) and `reads` (keys of `group_on`), a
consumer group reads its topic, with `shares` (keys of `shares_on`) a share group, both after the steps in `before`.
With `coordinator_last`, the brokers that coordinate groups and share groups are neither leader nor controller.

| a step | what it is |
| --- | --- |
| `kill: 1`, `{produce: m1, acks: "1"}` | a method of the stage, with these arguments and keys |
| `{expect: TEXT, leader: 2, log(1): [m1]}` | values that must be observed, at once or with `eventually: true` |
| `{await: SENTENCE, log end(3): 3}` | a step that waits for an observation |
| `{fact: NAME, of: "line(1, Truncating)"}` | an observation to be recorded |
| `{table: NAME, EVENT: 1.5}` | a table of moments to be recorded: each event with its seconds |
| `{produce: m1, then: {compact: {}}}` | a method, and the actions that the model takes after the step's own |
| `remember: {first: owner(0)}` | an observation, as a value for the placeholders of later steps |
| `PART`, `{PART: , acks: "1"}` | the steps of the part with this name, with values for its placeholders |

A step with `when` is taken only on clusters to which the condition applies (`WHEN`).
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from kafka_chaos.conformance.scenario.clusters import QUICK, STEADY, ClusterProfile
from kafka_chaos.conformance.scenario.groups.stage import MEMBER_STEPS, GroupStage, group_on
from kafka_chaos.conformance.scenario.observed import AnyStage, field_of, observe
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.record import json_value
from kafka_chaos.conformance.scenario.shares.stage import share_coordinator_of, shares_on
from kafka_chaos.conformance.scenario.transactions.producers import await_coordinator
from kafka_chaos.conformance.scenario.transactions.stage import transactional_act
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.harness.cluster.broker.client import CoordinatorKind
from kafka_chaos.reference_model.lockstep.stepping import step as model_step

PLACEHOLDER = re.compile(r"\{([\w ]+)\}")
ACT_KEYS = {"act", "cluster", "steps", "transactional", "group", "shares", "reads", "before", "coordinator_last"}
"""The keys of an act besides those of `Play.act`."""
OBSERVATION_STEPS = frozenset({"expect", "await", "fact", "table", "remember"})
"""The steps that are not methods of a stage."""
WHEN = {"eligible": True, "not eligible": False}
"""The values of `when`: whether leaders are elected from the eligible leader replicas, too (KIP-966)."""


def play_acts(play: Play, acts: Sequence[Mapping[str, Any]], file: Mapping[str, Any]) -> None:
    """Play the acts of a scenario, which may use the `clusters` and `parts` of its `file`."""
    clusters = {name: ClusterProfile(**keys) for name, keys in file.get("clusters", {}).items()}
    clusters |= {"steady": STEADY, "quick": QUICK}
    remembered: dict[str, Any] = {}
    for act in acts:
        for values in act.get("for", [{}]):
            filled_act = fill_placeholders({key: value for key, value in act.items() if key != "for"}, values)
            parts = file.get("parts", {})
            with _new_act(play, clusters, filled_act) as stage:
                _Script(stage, parts, remembered).take(filled_act.get("before", []))
                with _group_stage(stage, filled_act) as group_stage:
                    _Script(group_stage, parts, remembered).take(filled_act["steps"])


def _group_stage(stage: Any, act: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """The stage with the act's group or share group; the stage itself if the act has neither."""
    if "group" in act:
        return group_on(stage, Group(**act["group"]), **act["reads"])
    return shares_on(stage, **act["shares"]) if "shares" in act else nullcontext(stage)


def _new_act(play: Play, clusters: Mapping[str, ClusterProfile], act: Mapping[str, Any]) -> AbstractContextManager[Any]:
    keys = {key: value for key, value in act.items() if key not in ACT_KEYS}
    cluster = act.get("cluster", "steady")
    profile = clusters[cluster] if isinstance(cluster, str) else ClusterProfile(**cluster)
    if "transactional" in act:
        return transactional_act(play, act["act"], profile=profile, **act["transactional"], **keys)
    if act.get("coordinator_last"):
        with play.pool.leased(profile) as lease:
            # One broker coordinates every group: __consumer_offsets has one partition.
            coordinators = [await_coordinator(lease.cluster, "any", CoordinatorKind.GROUP)]
            if "shares" in act:
                coordinators.append(share_coordinator_of(lease, first=coordinators[0]))
        leader, *others = sorted((1, 2, 3), key=lambda broker: broker in coordinators)
        keys |= {"replicas": (leader, *others)[: len(act.get("replicas", (1, 2, 3)))], "controller": others[0]}
    return play.act(act["act"], profile=profile, **keys)


def fill_placeholders(value: Any, values: Mapping[str, Any]) -> Any:
    """A value of a file with its placeholders filled. A text that is only a placeholder becomes the value itself."""
    if isinstance(value, Mapping):
        return {fill_placeholders(key, values): fill_placeholders(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(item, values) for item in value]
    if not isinstance(value, str):
        return value
    whole = PLACEHOLDER.fullmatch(value)
    if whole is not None and whole[1] in values:
        return values[whole[1]]
    return PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), value)


@dataclass(frozen=True, slots=True)
class _Script:
    """Takes steps on a stage. `values`: what `remember` steps observed, for placeholders in steps, by name."""

    stage: AnyStage
    parts: Mapping[str, Any]
    values: dict[str, Any]

    def take(self, steps: Sequence[Any]) -> None:
        """Take steps one after the other. A step may be a list of further steps."""
        for step in steps:
            if isinstance(step, list):
                self.take(step)
            else:
                self._take_one(fill_placeholders({step: None} if isinstance(step, str) else step, self.values))

    def _take_one(self, step: dict[str, Any]) -> None:
        when = step.pop("when", None)
        if when is not None and self.stage.lease.profile.model_config().elects_eligible is not WHEN[when]:
            return
        verb = next(iter(step))
        value = step.pop(verb)
        match verb:
            case "expect":
                self._expect(value, step, eventually=step.pop("eventually", False))
            case "await":
                self.stage.await_seen(value, lambda seen: all(field_of(seen, name) == step[name] for name in step))
            case "fact":
                self.stage.fact(value, observe(self.stage, step["of"]))
            case "table":
                rows = [{"what": event, "seconds": seconds} for event, seconds in step.items()]
                self.stage.fact(value, rows)
            case "remember":
                self.values.update({name: observe(self.stage, observed) for name, observed in value.items()})
            case _ if verb in self.parts:
                self.take(fill_placeholders(self.parts[verb], step))
            case _:
                arguments = value if isinstance(value, list) else [] if value is None else [value]
                keys = {key.replace(" ", "_"): item for key, item in step.items()}
                if "then" in keys:
                    keys["then"] = [model_step(name, **values) for name, values in keys["then"].items()]
                name, first_arguments = method_named(verb, type(self.stage))
                getattr(self.stage, name)(*first_arguments, *arguments, **keys)

    def _expect(self, text: str, observed: Mapping[str, Any], *, eventually: bool) -> None:
        def alone_or_listed(values: list[Any]) -> Any:
            return values[0] if len(values) == 1 else values

        def observe_all() -> Any:
            return alone_or_listed([observe(self.stage, name) for name in observed])

        expected = alone_or_listed([json_value(value) for value in observed.values()])
        if eventually:
            self.stage.expect_eventually(text, observe_all, expected)
        else:
            self.stage.expect(text, observe_all(), expected)


def method_named(verb: str, stage: type[AnyStage]) -> tuple[str, list[str]]:
    """The name and the first arguments of the stage's method for a step in a file; `LookupError` if there is none."""
    if issubclass(stage, GroupStage) and verb in MEMBER_STEPS:
        return "member_step", [verb]
    name = verb.replace(" ", "_")
    if name.startswith("_") or not callable(getattr(stage, name, None)):
        raise LookupError(f"{verb!r} is neither a step nor a part")
    return name, []

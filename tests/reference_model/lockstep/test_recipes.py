"""The recipes' steps on the full model settle in what three real brokers showed, and in nothing else.

Each recipe was measured on Kafka 3.9; the expected logs, epoch files and answers below are those measurements. A
model with one rule broken on purpose must differ from them, and the comparison must name the replica that differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_chaos.reference_model.lockstep import clients as cluster_clients
from kafka_chaos.reference_model.lockstep import controller as cluster_controller
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, Step, step
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.protocol import PROTOCOLS, Protocol
from tests.reference_model.lockstep.cluster_steps import cut, heal, produce

BEFORE_EPOCHS = PROTOCOLS["truncate-to-high-watermark"]
WITH_EPOCHS = PROTOCOLS["kip320"]
NEVER_TRUNCATES = replace(WITH_EPOCHS, truncation=lambda log, watermark, leader_log: len(log))


def apply(model: ClusterModel, *steps: Step) -> ClusterModel:
    for one in steps:
        model.apply(one)
    return model


def sentences(model: ClusterModel) -> str:
    return " ".join(sentence for story in model.stories.values() for sentence in story)


def log(*entries: str) -> tuple[tuple[int, str, int], ...]:
    """A log from "record@epoch" entries, offsets from 0 on."""
    pairs = (entry.split("@") for entry in entries)
    return tuple((offset, record, int(epoch)) for offset, (record, epoch) in enumerate(pairs))


def settled_in(model: ClusterModel, observation: Observation) -> None:
    """The observation is allowed, and all other allowed states agree with it in the observed fields."""
    comparison = model.compare(observation)
    assert comparison.conforms, [str(difference) for difference in comparison.differences]
    assert comparison.matching == model.states


def all_replicas(brokers: tuple[int, ...], **seen: object) -> Observation:
    return Observation(replicas={b: ReplicaObservation(**seen) for b in brokers})  # type: ignore[arg-type]


def scenario_a(protocol: Protocol, *, controller: int) -> ClusterModel:
    """Broker 3 knows high watermark 1 and cannot reach broker 2, which is about to lead; then 2 dies as well.

    If 2 is the controller too, its successor needs two leader epochs to elect 3.
    """
    model = ClusterModel(ClusterConfig(controller=controller, protocol=protocol))
    apply(model, produce("m1"), produce("m2"))
    followers = {broker: ReplicaObservation(high_watermark=1, log_end=2) for broker in (2, 3)}
    apply(model, cut(3, 2))
    assert model.narrow(Observation(replicas=followers)).conforms
    return apply(model, step("kill", broker=1))


def test_scenario_a_before_epochs_drops_m2_and_leads_without_it() -> None:
    model = scenario_a(BEFORE_EPOCHS, controller=2)
    assert "Broker 3 truncates to offset 1, dropping m2." in sentences(model)
    assert model.compare(Observation(leader=2, isr=(2, 3))).conforms
    apply(model, step("kill", broker=2), produce("m3"))
    settled_in(
        model,
        Observation(
            leader=3,
            acknowledged=(("m1", 0), ("m2", 1), ("m3", 1)),
            replicas={3: ReplicaObservation(log=log("m1@0", "m3@3"), epochs=((0, 0), (3, 1)), role="leader")},
        ),
    )


def test_scenario_a_with_epochs_waits_for_the_answer_and_keeps_m2() -> None:
    model = scenario_a(WITH_EPOCHS, controller=3)
    assert "dropping" not in sentences(model)
    apply(model, step("kill", broker=2))
    settled_in(
        model,
        Observation(
            leader=3,
            acknowledged=(("m1", 0), ("m2", 1)),
            replicas={3: ReplicaObservation(log=log("m1@0", "m2@0"), epochs=((0, 0), (2, 2)), role="leader")},
        ),
    )


def scenario_b(protocol: Protocol) -> ClusterModel:
    """Both brokers die, the second to die loses m2 with its power and is the first to come back."""
    model = ClusterModel(ClusterConfig(brokers=(1, 2), controller=1, protocol=protocol))
    apply(model, produce("m1"), produce("m2"))
    assert model.narrow(all_replicas((1, 2), high_watermark=2, checkpointed_high_watermark=2)).conforms
    apply(model, step("kill", broker=1), step("kill", broker=2), step("power_loss", broker=2, kept=1))
    return apply(model, step("start", broker=2), produce("m3"), step("start", broker=1), produce("m4"))


def records(model: ClusterModel, broker: int) -> tuple[str, ...]:
    (held,) = {tuple(entry.record for entry in state.replica(broker).log) for state in model.states}
    return held


def test_scenario_b_before_epochs_diverges_under_equal_high_watermarks() -> None:
    model = scenario_b(BEFORE_EPOCHS)
    assert records(model, 1) == ("m1", "m2", "m4")
    assert records(model, 2) == ("m1", "m3", "m4")
    assert model.compare(all_replicas((1, 2), high_watermark=3, log_end=3)).conforms


def test_scenario_b_with_epochs_truncates_m2_and_agrees() -> None:
    model = scenario_b(WITH_EPOCHS)
    assert records(model, 1) == records(model, 2) == ("m1", "m3", "m4")
    (epochs,) = {(state.replica(1).epochs, state.replica(2).epochs) for state in model.states}
    assert epochs[0] == epochs[1]
    assert [start for _, start in epochs[0]] == [0, 1]


def test_two_views_of_the_leader() -> None:
    """The target of the reassignment is cut off from the controller and does not learn that it leads."""
    model = apply(
        ClusterModel(ClusterConfig(controller=3)),
        *(cut(3, 2, "control"), step("reassign", replicas=(2, 1, 3)), step("elect_preferred"), produce("m1")),
    )
    views = {1: 2, 2: 1, 3: 2}
    replicas = {b: ReplicaObservation(leader=leader, log=()) for b, leader in views.items()}
    settled_in(model, Observation(leader=2, acknowledged=(), replicas=replicas))
    apply(model, heal(3, 2, "control"))
    settled_in(
        model,
        Observation(
            leader=2,
            acknowledged=(("m1", 0),),
            # The new order of the replicas is one leader epoch, the election another: scenario split-brain.
            replicas={b: ReplicaObservation(leader=2, leader_epoch=2, log=log("m1@2")) for b in (1, 2, 3)},
        ),
    )


RECOVERIES: dict[str, tuple[str, bool, tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    "acks=all": ("all", False, ("M1@0", "M2@0", "M3@0", "M3@1", "M4@1"), (("M3", 3), ("M4", 4))),
    "idempotent": ("all", True, ("M1@0", "M2@0", "M3@0", "M4@1"), (("M3", 2), ("M4", 3))),
    "acks=1": ("1", False, ("M1@0", "M2@0", "M3@0"), (("M3", 2), ("M4", 3))),
}


def recovery(acks: str, *, idempotent: bool) -> ClusterModel:
    """X=1, Y=2, Z=3: M3 reaches Y alone, M4 nobody; X dies, Y leads, the cuts are lifted and X comes back."""
    model = ClusterModel(ClusterConfig(controller=2))
    apply(model, *(produce(record, acks, idempotent=idempotent) for record in ("M1", "M2")))
    assert model.narrow(all_replicas((2, 3), high_watermark=2)).conforms
    apply(model, cut(3, 1), produce("M3", acks, idempotent=idempotent), cut(2, 1))
    apply(model, produce("M4", acks, idempotent=idempotent))
    answered = (("M1", 0), ("M2", 1)) + ((("M3", 2), ("M4", 3)) if acks == "1" else ())
    settled_in(model, Observation(acknowledged=answered))
    return apply(model, step("kill", broker=1), step("start", broker=1), heal(3, 1), heal(2, 1))


def recovered(name: str) -> Observation:
    _, _, entries, late = RECOVERIES[name]
    held = log(*entries)
    replicas = {b: ReplicaObservation(log=held, log_end=len(held)) for b in (1, 2, 3)}
    replicas[2] = replace(replicas[2], role="leader", epochs=((0, 0), (1, 3)))
    return Observation(leader=2, leader_epoch=1, acknowledged=(("M1", 0), ("M2", 1), *late), replicas=replicas)


@pytest.mark.parametrize("name", RECOVERIES)
def test_recovery_of_the_dead_leader(name: str) -> None:
    acks, idempotent, _, _ = RECOVERIES[name]
    model = recovery(acks, idempotent=idempotent)
    seen = recovered(name)
    # The leader's first acknowledgements in a new epoch may come in either order with its ISR's return.
    assert model.compare(seen).conforms, [str(d) for d in model.compare(seen).differences]


def test_the_dead_leader_truncates_to_what_its_heir_has() -> None:
    model = ClusterModel(ClusterConfig(controller=2))
    apply(model, produce("M1", "1"), produce("M2", "1"), cut(3, 1), produce("M3", "1"), cut(2, 1), produce("M4", "1"))
    apply(model, step("kill", broker=1), step("start", broker=1))
    assert "Broker 1 truncates to offset 3, dropping M4." in sentences(model)


def differing(model: ClusterModel, observation: Observation) -> set[tuple[int, str]]:
    comparison = model.compare(observation)
    assert not comparison.conforms
    return {(difference.broker, difference.field) for difference in comparison.differences}


def test_a_model_without_truncation_differs_at_the_replica_that_should_have_truncated() -> None:
    honest = scenario_b(WITH_EPOCHS)
    (kept,) = {tuple((e.offset, e.record, e.leader_epoch) for e in state.replica(1).log) for state in honest.states}
    real = Observation(replicas={b: ReplicaObservation(log=kept) for b in (1, 2)})
    settled_in(honest, real)
    assert differing(scenario_b(NEVER_TRUNCATES), real) == {(1, "log")}


def test_a_model_without_the_sequence_check_differs_in_every_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_clients, "check_batch", lambda *_: None)
    model = recovery("all", idempotent=True)
    differences = differing(model, recovered("idempotent"))
    assert {(1, "log"), (2, "log"), (3, "log")} <= differences


def test_a_model_that_elects_from_outside_the_isr_differs_in_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps() -> Iterator[Step]:
        yield from (cut(2, 1), produce("m1"), step("expire_lag"), step("kill", broker=1))

    config = ClusterConfig(brokers=(1, 2), controller=2)
    honest = apply(ClusterModel(config), *steps())
    seen = Observation(leader=0, replicas={2: ReplicaObservation(role="follower", log=())})
    settled_in(honest, seen)

    def careless(state: ClusterState, config: ClusterConfig, *, excluded: int = 0) -> ClusterState:
        live = [r.broker for r in state.replicas if r.registered and r.broker != excluded]
        return cluster_controller.decide(state, config, live[0], (live[0],)) if live else state

    monkeypatch.setattr(cluster_controller, "elect", careless)
    assert (2, "role") in differing(apply(ClusterModel(config), *steps()), seen)

"""A trace that can't be played on a kind of cluster is refused before anything starts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafka_chaos.conformance.reproduce.claims import Story, claim, matrix
from kafka_chaos.conformance.reproduce.playing.actions import ACTIONS, assignment, refusal, remark
from kafka_chaos.conformance.reproduce.playing.player import TakenStep, profile_of
from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane

UNCLEAN = Lane(lane="story", idempotence=True, unclean_leader_election=True, faults=("kill", "kill"))


def story(anomaly: Anomaly, lane: Lane) -> Story:
    return claim(lane, anomaly).story


def test_of_the_matrix_only_stories_with_a_promise_that_no_release_keeps_are_refused() -> None:
    refused: Mapping[tuple[str, str, str], str] = {
        one.key: reason for one in matrix() if (reason := refusal(one.story)) is not None
    }
    assert all("KAFKA-15591" in reason for reason in refused.values())
    assert set(refused) == {("acks=all, idempotent, unclean election", "kill, kill", "duplicate")}


def test_a_refusal_that_the_append_of_the_same_record_follows_is_told_as_it_is_on_brokers() -> None:
    told = story(Anomaly.INCONSISTENT_OFFSET, replace(UNCLEAN, faults=("kill",)))
    number = [step.name for step in told.steps].index("out_of_order_sequence")
    assert refusal(told) is None
    assert [one.number for one in told.steps if remark(told, one) is not None] == [number]
    assert "KAFKA-15591" in str(remark(told, told.steps[number]))
    assert str(TakenStep("It refuses.", 0.25, "it does not")) == "It refuses. (it does not)  0.2 s"


def test_a_refusal_names_the_step_and_the_reason() -> None:
    reason = refusal(story(Anomaly.DUPLICATE, UNCLEAN))
    assert reason is not None
    assert reason.startswith("step 8 (Broker 2 refuses record 1: OUT_OF_ORDER_SEQUENCE_NUMBER.) is the promise")


def test_an_action_that_nobody_can_bring_about_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = story(Anomaly.LOST_WRITE, Lane(lane="story", acks="1", faults=("kill",)))
    assert refusal(told) is None
    monkeypatch.delitem(ACTIONS, "kill")  # type: ignore[arg-type]
    assert refusal(told) == (
        "step 3 (Broker 1, the leader, is killed; from here on it may be back.) "
        "is not one that brokers can be made to take so far"
    )


def test_replicas_are_in_the_order_in_which_they_come_to_lead() -> None:
    clean = Lane(lane="story", acks="1", faults=("kill",))
    assert assignment(story(Anomaly.LOST_WRITE, clean)) == (1, 2, 3)
    # Broker 2 is there, too, when broker 3 is elected from outside of the ISR.
    unclean = Lane(lane="story", min_insync_replicas=2, unclean_leader_election=True, faults=("kill",))
    assert assignment(story(Anomaly.LOST_WRITE, unclean)) == (1, 3, 2)


def lag(profile: ClusterProfile) -> int:
    return int(str(profile.spec.broker_configs["replica.lag.time.max.ms"]))


def test_a_story_gets_the_cluster_that_it_needs() -> None:
    acks_1 = Lane(lane="story", acks="1", faults=("kill",))
    steady = profile_of(story(Anomaly.DUPLICATE, acks_1))
    assert steady.links
    assert not steady.lag_is_short
    assert not steady.disk_mib
    shrinks = profile_of(story(Anomaly.TRUNCATED_READ, replace(acks_1, unclean_leader_election=True)))
    assert shrinks.lag_is_short
    assert lag(shrinks) < lag(steady)
    fetches = replace(UNCLEAN, idempotence=False, min_insync_replicas=2, faults=("kill",))
    later = profile_of(story(Anomaly.OFFSET_MISMATCH, fetches))
    assert lag(shrinks) < lag(later) < lag(steady)
    power = profile_of(story(Anomaly.LOST_WRITE, replace(acks_1, faults=("power-loss",))))
    assert power.disk_mib
    assert len({steady.name, shrinks.name, later.name, power.name}) == 4


def test_other_versions_are_played_in_kraft_mode() -> None:
    lane = Lane(lane="story", acks="1", faults=("kill",), kafka_version="4.3.1", metadata_mode="kraft")
    profile = profile_of(story(Anomaly.LOST_WRITE, lane))
    assert (profile.kafka_version, profile.metadata_mode, profile.links) == ("4.3.1", "kraft", True)
    assert not [key for key in profile.configs if key.startswith("zookeeper.")]
    assert all(
        refusal(one.story) is None or "KAFKA-15591" in str(refusal(one.story)) for one in matrix("4.3.1", "kraft")
    )

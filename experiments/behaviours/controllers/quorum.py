"""KRaft mode: how the controller replaces a leader, what that one does meanwhile, and who is the controller."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from kafka_chaos.conformance.scenario import in_model
from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.lockstep import await_line
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.experiments.behaviours.controllers.controller import moment_of
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lockstep.cluster_model import step
from kafka_chaos.reference_model.lockstep.state import CLIENT, CLIENTS

QUORUM = ClusterProfile(name="steady, in KRaft mode", metadata_mode=KRAFT)
THREE = ClusterProfile(
    name="three controllers",
    metadata_mode=KRAFT,
    controllers=3,
    # Twice as long as in other clusters: who looks for a controller for a while is not taken for dead meanwhile.
    configs={"broker.session.timeout.ms": 6000},
)
_LONGER_THAN_A_SESSION = 9
_PATIENT = {"request.timeout.ms": 200_000, "socket.timeout.ms": 200_000}
"""A producer that sends nothing again while its request waits for the ISR: after 30 s by default."""
BEFORE_3_7 = replace(THREE, name="three controllers, Kafka 3.6.2", kafka_version="3.6.2")


@scenario("kraft-election", title="From missing heartbeats to brokers that have replayed the election")
def kraft_election(play: Play) -> None:
    """The leader is killed, and its heartbeats end. When its session is over, the active controller fences it, and
    writes a change of the partition to the metadata log: a leader from the ISR, in the next leader epoch. The brokers
    replay the log: one leads, the other follows. The timestamps in the nodes' own logs show this order. A follower that
    is killed leaves the ISR in the same leader epoch.
    """
    with play.act("the leader is killed", profile=QUORUM) as stage:
        stage.produce("m1")
        killed = time.time()
        stage.kill(1)
        stage.expect("The new leader comes from the ISR", (stage.seen.leader, stage.seen.isr), (2, (2, 3)))
        place = f"{stage.topic}-0"
        (controller,) = stage.lease.cluster.controllers.values()
        moments = [
            ("broker 1 is killed", killed),
            (
                "its session is over: it is fenced (controller)",
                moment_of(await_line(controller, "Fencing broker 1 ", since=killed)),
            ),
            (
                "the election is in the metadata log (controller)",
                moment_of(
                    await_line(controller, f"partition change for {place} ", "leaderEpoch: 0 -> 1", since=killed)
                ),
            ),
            ("broker 2 leads", moment_of(stage.await_line(2, f"Leader {place}", "starts at leader epoch 1"))),
            ("broker 3 follows", moment_of(stage.await_line(3, f"Follower {place}", "starts at leader epoch 1"))),
        ]
        order = [when for _, when in moments]
        stage.expect("The order is session, fencing, log", order[:3] == sorted(order[:3]))
        stage.expect("The brokers come last", order[2] <= min(order[3:]))
        stage.expect("Most of the time passes until the session is over", order[1] - killed > max(order) - order[1])
        stage.fact(
            "the sequence",
            [{"what": what, "milliseconds after the kill": round((when - killed) * 1000)} for what, when in moments],
        )
        stage.produce("m2")
        stage.kill(3)
        stage.expect("Broker 3 has left the ISR", stage.seen.isr, (2,))
        stage.expect("The leader epoch is the same", stage.seen.leader_epoch, 1)
        stage.produce("m3")
        stage.expect("Broker 2 serves alone", stage.log(2), ["m1", "m2", "m3"])


@scenario("kraft-zombie-leader", title="A fenced leader thaws, and acknowledges with acks=1 what it then loses")
def kraft_zombie_leader(play: Play) -> None:
    """The leader is frozen until the controller has fenced it and another broker leads. A producer that has not heard
    of that sends a record with acks=1. It waits in the frozen broker's socket. When the broker thaws, it may append and
    acknowledge the record before it has replayed the election from the metadata log. Then it follows, and truncates the
    record. If it replays the log first, the producer sends the record to the new leader.
    """
    with play.act("the leader is frozen", profile=QUORUM) as stage:
        stage.produce("m1", acks="1")
        stage.await_seen("All replicas have m1.", lambda seen: all(one.log_end == 1 for one in seen.replicas.values()))
        stage.pause(1)
        stage.expect("Broker 2 leads", (stage.seen.leader, stage.seen.leader_epoch), (2, 1))
        # The producer has a connection to broker 1, and a request there: it asks nobody else meanwhile.
        unknown = [(CLIENTS, CLIENT, broker) for broker in (2, 3)]
        stage.take(
            "The producer, which takes broker 1 for the leader, sends m2 with acks=1.",
            lambda: stage.clients.send("m2", acks="1"),
            *in_model.cut(*unknown),
            step("produce", record="m2", acks="1", producer="p", idempotent=False, key=None, tombstone=False),
        )
        stage.expect("m2 is not acknowledged", len(stage.seen.acknowledged or ()), 1)
        stage.take(
            "Broker 1 continues.",
            stage.node(1).unpause,
            step("thaw", broker=1),
            *in_model.heal(*unknown),
        )
        stage.expect("m2 is acknowledged", [record for record, _ in stage.seen.acknowledged or ()][1:], ["m2"])
        stage.expect("Broker 1 follows broker 2", stage.replica(1).role, "follower")
        kept = "m2" in stage.log(2)
        stage.expect("All logs are equal", stage.logs(), [stage.log(2)] * 3)
        stage.fact("m2", "sent to broker 2 in the end" if kept else "acknowledged by broker 1, and truncated there")


@scenario("quorum-majority-lost", title="Two of three controllers are gone: leaders serve on, and no leader can change")
def quorum_majority_lost(play: Play) -> None:
    """Three controllers, none of them a broker, keep the metadata. Two are killed. The leader goes on to serve, with
    acks=all too. But nobody can write to the metadata log: a leader that is killed now has no successor, and a follower
    that is killed stays in the ISR, so that acks=all waits for it. When a majority is back, it elects an active
    controller, which fences the dead broker and does what was left undone.
    """
    with play.act("the leader is killed meanwhile", profile=THREE) as stage:
        stage.produce("m1")
        gone = _lose_the_majority(stage)
        stage.produce("m2")
        stage.expect("The leader acknowledges with acks=all", list(stage.acknowledged), ["m1", "m2"])
        stage.kill(1)
        _outlast_a_session(stage)
        stage.expect("In the metadata it still leads", _partition(stage), (1, (1, 2, 3), 0))
        stage.expect("Nobody has fenced it", stage.seen.registered, (1, 2, 3))
        stage.produce("m3")
        stage.expect("Nobody takes m3", "m3" in stage.acknowledged, False)
        _recover_the_majority(stage, gone, dead=1)
        stage.expect("Another broker leads", stage.seen.leader in (2, 3))
        stage.expect("It acknowledges m3", list(stage.acknowledged), ["m1", "m2", "m3"])
    with play.act("a follower is killed meanwhile", profile=THREE) as stage:
        stage.produce("m1", configs=_PATIENT)
        gone = _lose_the_majority(stage)
        stage.kill(3)
        stage.produce("m2", acks="1", producer="q")
        stage.produce("m3")
        _outlast_a_session(stage)
        stage.expect("It is still in the ISR", _partition(stage), (1, (1, 2, 3), 0))
        stage.expect("acks=1 is acknowledged, acks=all waits", list(stage.acknowledged), ["m1", "m2"])
        _recover_the_majority(stage, gone, dead=3)
        stage.expect("It has left the ISR", 3 in (stage.seen.isr or ()), False)
        stage.expect("m3 is acknowledged", list(stage.acknowledged), ["m1", "m2", "m3"])


def _outlast_a_session(stage: Stage) -> None:
    """Whoever could fence a dead broker has done so then."""
    stage.take(f"{_LONGER_THAN_A_SESSION} s pass, more than a broker's session.", lambda: _wait(_LONGER_THAN_A_SESSION))


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _lose_the_majority(stage: Stage) -> tuple[int, ...]:
    active = stage.seen.controller or 0
    another = next(one for one in stage.lease.profile.voters if one != active)
    gone = tuple(sorted((active, another)))
    stage.kill_controllers(*gone)
    stage.expect("No controller is active", stage.seen.controller, 0)
    return gone


def _recover_the_majority(stage: Stage, gone: tuple[int, ...], *, dead: int) -> None:
    back = time.time()
    stage.start_controllers(*gone)
    stage.expect("A controller is active", stage.seen.controller in stage.lease.profile.voters)
    fenced = _first_line(stage, stage.lease.profile.voters, f"Fencing broker {dead} ", since=back)[1]
    stage.fact("seconds from the restart of the controllers until the dead broker was fenced", round(fenced - back, 1))


@scenario("quorum-leader-cut", title="The active controller is cut off from the others: before 3.7 it does not resign")
def quorum_leader_cut(play: Play) -> None:
    """The active controller no longer reaches the others, and brokers reach all of them. The others elect another one.
    Since 3.7 (KAFKA-15489) the first resigns when no majority has fetched from it for a while. Brokers find its
    successor, and a dead leader is replaced. Before, it stays active in its own eyes, and brokers stay with it. Two
    controllers are active then. The first can't commit what it writes, and no broker knows of the second: a dead leader
    has no successor until the cut heals.
    """
    with play.act("before 3.7", profile=BEFORE_3_7) as stage:
        first, cut = _cut_the_active(stage)
        second, elected = _first_line(stage, _others(stage, first), _ELECTED, since=cut)
        stage.settle("A second controller is active.")
        stage.expect("Brokers stay with the first", stage.seen.controller, first)
        stage.kill(1)
        stage.produce("m2")
        _outlast_a_session(stage)
        stage.expect("Nobody replaces a dead leader", _partition(stage), (1, (1, 2, 3), 0))
        stage.expect("Nobody takes m2", list(stage.acknowledged), ["m1"])
        stage.expect("The first has not resigned", _lines(stage, first, *_RESIGNS, _RENOUNCES, since=cut), [])
        healed = time.time()
        stage.reconnect_controller(first)
        _, renounced = _first_line(stage, (first,), _RENOUNCES, since=healed)
        stage.expect("The first learns of the second", renounced > elected)
        _show(
            stage,
            cut,
            (("the second is active", elected), ("the cut heals", healed), ("the first renounces", renounced)),
        )
        stage.expect("Brokers are with the second", stage.seen.controller, second)
        stage.expect("Another broker leads", stage.seen.leader in (2, 3))
        stage.expect("It acknowledges m2", list(stage.acknowledged), ["m1", "m2"])
    with play.act("since 3.7", profile=THREE) as stage:
        first, cut = _cut_the_active(stage)
        second, elected = _first_line(stage, _others(stage, first), _ELECTED, since=cut)
        _, resigned = _first_line(stage, (first,), _RESIGNS[0], since=cut)
        _show(stage, cut, (("the second is active", elected), ("the first resigns", resigned)))
        stage.expect("Brokers are with the second", stage.seen.controller, second)
        stage.kill(1)
        stage.expect("Another broker leads", stage.seen.leader in (2, 3))
        stage.produce("m2")
        stage.expect("It acknowledges m2", list(stage.acknowledged), ["m1", "m2"])
        stage.reconnect_controller(first)
        stage.expect("The first is not active again", stage.seen.controller in _others(stage, first))


_ELECTED = "Becoming the active controller at epoch"
_RENOUNCES = "Renouncing the leadership due to a metadata log event"
_RESIGNS = ("Did not receive fetch request from the majority of the voters", "transition to Resigned")


def _cut_the_active(stage: Stage) -> tuple[int, float]:
    """The active controller, and when it was cut off."""
    stage.produce("m1")
    first, cut = stage.seen.controller or 0, time.time()
    stage.cut_off_controller(first)
    return first, cut


def _others(stage: Stage, controller: int) -> tuple[int, ...]:
    return tuple(one for one in stage.lease.profile.voters if one != controller)


def _partition(stage: Stage) -> tuple[int | None, tuple[int, ...] | None, int | None]:
    return stage.seen.leader, stage.seen.isr, stage.seen.leader_epoch


def _lines(stage: Stage, controller: int, *texts: str, since: float) -> list[str]:
    lines = stage.controller_node(controller).log_since(since).splitlines()
    return [line for line in lines if any(text in line for text in texts)]


def _first_line(stage: Stage, controllers: tuple[int, ...], text: str, *, since: float) -> tuple[int, float]:
    """Which of the controllers logs the text first since then, and when; waits for it."""

    def find() -> tuple[int, float] | None:
        found = [(moment_of(line), one) for one in controllers for line in _lines(stage, one, text, since=since)[:1]]
        return None if not found else min(found)[::-1]

    return wait_until(find, f"a controller to log {text!r}", timeout=40, interval=0.2)


def _show(stage: Stage, cut: float, moments: tuple[tuple[str, float], ...]) -> None:
    after = [{"what": what, "seconds after the cut": round(when - cut, 1)} for what, when in moments]
    stage.fact("the sequence", after)

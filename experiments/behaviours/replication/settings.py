"""Topic parameters: what unclean election and min.insync.replicas provide, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_chaos.conformance.scenario.clusters import QUICK, ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.power_loss import cut_last_batch
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.broker.error_codes import error_name
from kafka_chaos.reference_model.lockstep.cluster_model import step

QUICK_TWO = ClusterProfile(name="two brokers, short lag time", brokers=2, lag_is_short=True, configs=QUICK.configs)

BEFORE_3_7 = ClusterProfile(
    name="3.6.2, short lag time", kafka_version="3.6.2", lag_is_short=True, configs=QUICK.configs
)


def _alone_with_m2_and_dead(stage: Stage) -> None:
    """Broker 1 commits m2 as the only member of the ISR, and is killed."""
    stage.produce("m1")
    stage.await_committed("m1", 1)
    stage.cut(2, 1)
    stage.produce("m2")
    stage.expect("Only the leader is in the ISR", stage.seen.isr, (1,))
    stage.expect("m2 is acknowledged", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
    stage.kill(1)


@scenario(
    "unclean-election",
    title="No live member of the ISR: either service stops or committed records are lost",
)
def unclean_election(play: Play) -> None:
    """The only member of the ISR dies. Without unclean election no broker leads or serves, and nothing is lost once the
    dead broker returns. With unclean election the other replica leads at once, and the committed record that it never
    had is lost.
    """
    with play.act("unclean election disabled", profile=QUICK_TWO, replicas=(1, 2), controller=2) as stage:
        _alone_with_m2_and_dead(stage)
        # An eligible leader replica is none of the ISR.
        isr = () if stage.lease.profile.elects_eligible else (1,)
        stage.expect("No broker leads", (stage.seen.leader, stage.seen.isr), (0, isr))
        stage.produce("m3")
        stage.expect("m3 is not acknowledged", len(stage.seen.acknowledged or ()), 2)
        with stage.ask(2) as survivor:
            stage.expect("Metadata names no leader", survivor.metadata(stage.topic).leader, None)
        stage.start(1)
        stage.expect("m3 is appended once broker 1 is back", stage.log(1), ["m1", "m2", "m3"])
        stage.expect("Nothing is lost", stage.read(), ["m1", "m2", "m3"])
    with play.act(
        "unclean election enabled", profile=QUICK_TWO, replicas=(1, 2), controller=2, unclean_leader_election=True
    ) as stage:
        _alone_with_m2_and_dead(stage)
        stage.expect("Broker 2 leads", (stage.seen.leader, stage.seen.isr), (2, (2,)))
        stage.produce("m3")
        stage.expect("m3 is acknowledged", stage.acknowledged["m3"], 1)
        stage.expect("m2, which was committed, is gone", stage.read(), ["m1", "m3"])
        stage.start(1)
        stage.expect("Broker 1 has truncated m2", stage.log(1), ["m1", "m3"])
        stage.fact("broker 1's log", stage.await_line(1, "Truncating to offset 1", stage.topic))


@scenario(
    "min-insync-replicas",
    title="min.insync.replicas=2 of 3: writes survive one failure, not two",
)
def min_insync_replicas(play: Play) -> None:
    """With one broker down, records with acks=all are acknowledged. With two down, the leader refuses them with
    NOT_ENOUGH_REPLICAS before it writes anything, while consumers can still read. If the ISR shrinks while a record
    waits, the refusal comes after the append, and the record stays in the log. Before Kafka 3.7 the error is
    NOT_ENOUGH_REPLICAS_AFTER_APPEND. Since then the high watermark does not advance while the ISR is too small
    (KAFKA-15583), and the request times out.
    """
    with play.act("brokers fail", controller=1, min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.kill(3)
        stage.produce("m2")
        stage.expect("m2 is acknowledged despite one failure", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
        stage.kill(2)
        stage.expect("Only the leader is in the ISR", stage.seen.isr, (1,))
        error = _send_once(stage, "m3", "A producer sends m3 with acks=all, without retries.")
        stage.expect("m3 is refused after two failures", error, "NOT_ENOUGH_REPLICAS")
        stage.expect("m3 was not written", stage.log(1), ["m1", "m2"])
        stage.expect_eventually("Consumers still read what is committed", stage.read, ["m1", "m2"])
        stage.start(2)
        stage.produce("m4")
        stage.expect("m4 is appended with two replicas in sync", stage.log(1), ["m1", "m2", "m4"])
    for profile, name, expected in (
        (QUICK, "the ISR shrinks while a record waits", "REQUEST_TIMED_OUT"),
        (BEFORE_3_7, "the ISR shrinks while a record waits, before Kafka 3.7", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ):
        with play.act(name, profile=profile, controller=3, min_insync_replicas=2) as stage:
            _while_the_isr_shrinks(stage, expected)


def _while_the_isr_shrinks(stage: Stage, expected: str) -> None:
    stage.produce("m1")
    stage.cut(2, 1)
    stage.cut(3, 1)
    error = _send_once(stage, "m2", "A producer sends m2 with acks=all, without retries, while the ISR is still full.")
    stage.expect("m2 is refused after the append", error, expected)
    stage.expect("m2 is in the leader's log", stage.log(1), ["m1", "m2"])
    error = _send_once(stage, "m3", "A producer sends m3 with acks=all, without retries.")
    stage.expect("m3 is refused before the append", error, "NOT_ENOUGH_REPLICAS")
    stage.heal(2, 1)
    stage.heal(3, 1)
    stage.expect("All replicas have m2 in the end", stage.logs(), [["m1", "m2"]] * 3)


def _send_once(stage: Stage, record: str, sentence: str) -> str:
    """Send a record to the leader without any retry; returns the error."""
    errors: list[str] = []

    def send() -> None:
        with stage.ask(stage.seen.leader or 1) as leader:
            leader.wait(60)
            errors.append(error_name(leader.produce(stage.topic, record, timeout=5)[0]))

    stage.take(sentence, send, step("produce", record=record, producer=record), step("give_up", record=record))
    return errors[0]


@scenario(
    "no-loss-config",
    title="Three replicas, acks=all, min.insync.replicas=2: no single failure loses a record",
)
def no_loss_config(play: Play) -> None:
    """The leader is killed, frozen, cut off from all others and from ZooKeeper, loses power, or is shut down. Each time
    another broker is elected and serves, and every acknowledged record is kept. But if the third replica is out of the
    ISR and both members of the ISR lose power, a record that neither of them had flushed is lost.
    """
    faults: dict[str, tuple[Callable[[Stage], None], Callable[[Stage], None]]] = {
        "kill": (lambda stage: stage.kill(1), lambda stage: stage.start(1)),
        "pause": (lambda stage: stage.pause(1), lambda stage: stage.thaw(1)),
        "partition": (lambda stage: stage.isolate(1), lambda stage: stage.rejoin(1)),
        "power loss": (_lose_power, lambda stage: stage.start(1)),
        "controlled shutdown": (lambda stage: stage.stop(1), lambda stage: stage.start(1)),
    }
    for name, (inject, heal) in faults.items():
        with play.act(name, controller=3, min_insync_replicas=2) as stage:
            # A client that waits for a frozen broker asks another broker only after its time-out.
            patience = {"request.timeout.ms": 3000, "socket.timeout.ms": 4000} if name == "pause" else {}
            stage.produce("m1", configs=patience)
            inject(stage)
            # The isolated broker would answer a client that it still leads.
            others = stage.reachable(2, 3) if name == "partition" else {}
            stage.produce("m2", producer="another" if others else "p", configs=others)
            stage.expect("m2 is acknowledged during the fault", len(stage.seen.acknowledged or ()), 2)
            heal(stage)
            records = [record for record, _ in stage.seen.acknowledged or ()]
            stage.expect("Both records are acknowledged", records, ["m1", "m2"])
            stage.expect("Every replica has both records", stage.logs(), [["m1", "m2"]] * 3)
    with play.act("two brokers lose power, the third is out of the ISR", controller=3, min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.kill(3)
        stage.produce("m2")
        stage.expect("m2 is acknowledged with two replicas in sync", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
        stage.kill(1, 2)
        for broker in (1, 2):
            _drop_last(stage, broker, kept=1)
        stage.start(2)
        stage.start(1)
        stage.expect("m2 is gone", [stage.log(1), stage.log(2)], [["m1"], ["m1"]])


def _kill_and_send(stage: Stage) -> None:
    stage.node(1).kill()
    stage.clients.send("m3")


def _lose_power(stage: Stage) -> None:
    stage.kill(1)
    _drop_last(stage, 1, kept=0)


def _drop_last(stage: Stage, broker: int, *, kept: int) -> None:
    stage.take(
        f"Power loss at {stage.name(broker)}: the record that it had not flushed is gone.",
        lambda: cut_last_batch(stage.node(broker), stage.topic, 0),
        step("power_loss", broker=broker, kept=kept),
    )


@scenario("availability-config", title="With unclean election, service continues and acknowledged records are lost")
def availability_config(play: Play) -> None:
    """With unclean election and min.insync.replicas=1, the partition is available as long as one replica is alive. The
    last member of the ISR dies, and another replica leads as soon as the dead broker's session has ended. The price is
    every record that only the dead broker had, acknowledged or not.
    """
    with play.act("one replica after the other", profile=QUICK, controller=3, unclean_leader_election=True) as stage:
        stage.produce("m1")
        stage.await_committed("m1", 1)
        stage.cut(2, 1)
        stage.cut(3, 1)
        stage.produce("m2")
        stage.expect("m2 is acknowledged with only the leader in the ISR", stage.seen.isr, (1,))
        began = time.monotonic()
        sent = step("produce", record="m3")
        stage.take(
            "The leader is killed; m3 is sent at once.", lambda: _kill_and_send(stage), step("kill", broker=1), sent
        )
        waited = stage.answered("m3") - began
        stage.fact("seconds from the kill until the next record was acknowledged", round(waited, 2))
        stage.expect("m3 is acknowledged", stage.acknowledged["m3"], 1)
        stage.expect("m2 is lost", stage.read(), ["m1", "m3"])
        stage.start(1)
        stage.expect("All logs are equal", stage.logs(), [["m1", "m3"]] * 3)

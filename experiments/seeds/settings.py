"""Document 002, topic parameters: what unclean election and min.insync.replicas give, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_chaos.harness.broker_client import error_name
from kafka_chaos.harness.scenario.house import QUICK, House
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.storage.power_loss import cut_last_batch
from kafka_chaos.reference_model.cluster_model import step

QUICK_TWO = House(name="two brokers, quick to evict", brokers=2, lag_is_short=True, configs=QUICK.configs)

BEFORE_3_7 = House(name="3.6.2, quick to evict", kafka_version="3.6.2", lag_is_short=True, configs=QUICK.configs)


def _alone_with_m2_and_dead(stage: Stage) -> None:
    """Broker 1 commits m2 as the only member of the ISR, and is killed."""
    stage.produce("m1")
    stage.await_seen("Both know that m1 is committed.", lambda seen: stage.high_watermarks(seen) == [1, 1])
    stage.cut(2, 1)
    stage.produce("m2")
    stage.expect("the ISR is the leader alone", seen=stage.seen.isr, expected=(1,))
    stage.expect("m2 is acknowledged", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
    stage.kill(1)


@scenario("unclean-election", document="002", title="No live member of the ISR: service ends, or committed records do")
def unclean_election(play: Play) -> None:
    """The only member of the ISR dies. Without unclean election nobody leads, nobody is served, and nothing is lost
    when it returns. With it, the other replica leads at once, and the committed record that it never had is gone.
    """
    with play.act("off", house=QUICK_TWO, replicas=(1, 2), controller=2) as stage:
        _alone_with_m2_and_dead(stage)
        stage.expect("nobody leads", seen=(stage.seen.leader, stage.seen.isr), expected=(0, (1,)))
        stage.produce("m3")
        stage.expect("m3 is not acknowledged", seen=len(stage.seen.acknowledged or ()), expected=2)
        with stage.ask(2) as survivor:
            stage.expect("clients are told of no leader", seen=survivor.metadata(stage.topic).leader, expected=None)
        stage.start(1)
        stage.expect("m3 is served once broker 1 is back", seen=stage.log(1), expected=["m1", "m2", "m3"])
        stage.expect("nothing is lost", seen=stage.read(), expected=["m1", "m2", "m3"])
    with play.act("on", house=QUICK_TWO, replicas=(1, 2), controller=2, unclean_leader_election=True) as stage:
        _alone_with_m2_and_dead(stage)
        stage.expect("the other leads", seen=(stage.seen.leader, stage.seen.isr), expected=(2, (2,)))
        stage.produce("m3")
        stage.expect("service goes on", seen=dict(stage.seen.acknowledged or ())["m3"], expected=1)
        stage.expect("m2, committed, is gone", seen=stage.read(), expected=["m1", "m3"])
        stage.start(1)
        stage.expect("broker 1 has truncated it", seen=stage.log(1), expected=["m1", "m3"])
        stage.fact("broker 1's log", stage.await_line(1, "Truncating to offset 1", stage.topic))


@scenario("min-insync-replicas", document="002", title="min.insync.replicas=2 of 3: one failure served, two refused")
def min_insync_replicas(play: Play) -> None:
    """One broker down: acks=all is served. Two down: it is refused with NOT_ENOUGH_REPLICAS before anything is
    written, while reading goes on. Where the ISR shrinks while a record waits, the refusal comes after the append,
    and the record is in the log all the same: NOT_ENOUGH_REPLICAS_AFTER_APPEND before Kafka 3.7; since then the
    high watermark does not pass it while the ISR is too small (KAFKA-15583), and the request times out.
    """
    with play.act("brokers fail", controller=1, min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.kill(3)
        stage.produce("m2")
        stage.expect("one failure is served", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.kill(2)
        stage.expect("the ISR is the leader alone", seen=stage.seen.isr, expected=(1,))
        error = _send_once(stage, "m3", "m3 is sent once, with acks=all.")
        stage.expect("two are refused", seen=error, expected="NOT_ENOUGH_REPLICAS")
        stage.expect("nothing was written", seen=stage.log(1), expected=["m1", "m2"])
        stage.expect_eventually("what is committed is still read", stage.read, expected=["m1", "m2"])
        stage.start(2)
        stage.produce("m4")
        stage.expect("served again with two", seen=stage.log(1), expected=["m1", "m2", "m4"])
    for house, name, expected in (
        (QUICK, "the ISR shrinks meanwhile", "REQUEST_TIMED_OUT"),
        (BEFORE_3_7, "the ISR shrinks meanwhile, before Kafka 3.7", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ):
        with play.act(name, house=house, controller=3, min_insync_replicas=2) as stage:
            _while_the_isr_shrinks(stage, expected)


def _while_the_isr_shrinks(stage: Stage, expected: str) -> None:
    stage.produce("m1")
    stage.cut(2, 1)
    stage.cut(3, 1)
    error = _send_once(stage, "m2", "m2 is sent once, with acks=all, while the ISR is still full.")
    stage.expect("refused after the append", seen=error, expected=expected)
    stage.expect("m2 is in the log", seen=stage.log(1), expected=["m1", "m2"])
    error = _send_once(stage, "m3", "m3 is sent once, with acks=all.")
    stage.expect("the next one is refused before", seen=error, expected="NOT_ENOUGH_REPLICAS")
    stage.heal(2, 1)
    stage.heal(3, 1)
    logs = [stage.log(broker) for broker in (1, 2, 3)]
    stage.expect("m2 is everywhere in the end", seen=logs, expected=[["m1", "m2"]] * 3)


def _send_once(stage: Stage, record: str, sentence: str) -> str:
    """Send a record to the leader without any retry: its error."""
    errors: list[str] = []

    def send() -> None:
        with stage.ask(stage.seen.leader or 1) as leader:
            leader.wait(60)
            errors.append(error_name(leader.produce(stage.topic, record, timeout=5)[0]))

    stage.take(sentence, send, step("produce", record=record, producer=record), step("give_up", record=record))
    return errors[0]


@scenario(
    "no-loss-config", document="002", title="RF 3, acks=all, min.insync.replicas=2: no single failure loses a record"
)
def no_loss_config(play: Play) -> None:
    """The leader is killed, frozen, cut off from all others and from ZooKeeper, loses its power, is shut down: another
    one is elected and serves, and whatever was acknowledged is kept each time. Two failures of members of the ISR
    that lose what was not flushed can lose it, when the third replica is out.
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
            # A client that waits for a frozen broker asks another one only after its time-out.
            patience = {"request.timeout.ms": 3000, "socket.timeout.ms": 4000} if name == "pause" else {}
            stage.produce("m1", configs=patience)
            inject(stage)
            # A client that asked the isolated broker for the leader would be told that it still is.
            others = stage.reachable(2, 3) if name == "partition" else {}
            stage.produce("m2", producer="another" if others else "p", configs=others)
            stage.expect("m2 is acknowledged meanwhile", seen=len(stage.seen.acknowledged or ()), expected=2)
            heal(stage)
            stage.expect(
                "both are acknowledged", seen=[r for r, _ in stage.seen.acknowledged or ()], expected=["m1", "m2"]
            )
            logs = [stage.log(broker) for broker in (1, 2, 3)]
            stage.expect("both are on every replica", seen=logs, expected=[["m1", "m2"]] * 3)
    with play.act("two lose their power, the third is out of the ISR", controller=3, min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.kill(3)
        stage.produce("m2")
        stage.expect("m2 is acknowledged by two", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.kill(1, 2)
        for broker in (1, 2):
            _drop_last(stage, broker, kept=1)
        stage.start(2)
        stage.start(1)
        stage.expect("m2 is gone", seen=[stage.log(1), stage.log(2)], expected=[["m1"], ["m1"]])


def _cut_off(stage: Stage) -> None:
    for follower in (2, 3):
        stage.cut(follower, 1)


def _kill_and_send(stage: Stage) -> None:
    stage.node(1).kill()
    stage.clients.send("m3")


def _lose_power(stage: Stage) -> None:
    stage.kill(1)
    _drop_last(stage, 1, kept=0)


def _drop_last(stage: Stage, broker: int, *, kept: int) -> None:
    stage.take(
        f"{stage.name(broker)} had lost its power: what was not flushed is gone.",
        lambda: cut_last_batch(stage.node(broker), stage.topic, 0),
        step("power_loss", broker=broker, kept=kept),
    )


@scenario("availability-config", document="002", title="Unclean election on: served throughout, at the price shown")
def availability_config(play: Play) -> None:
    """With unclean election and min.insync.replicas=1 the partition is served as long as one replica lives: the last
    member of the ISR dies, and another replica leads as soon as its session has ended. The price is every record that
    only the dead one had, acknowledged or not.
    """
    with play.act("one replica after the other", house=QUICK, controller=3, unclean_leader_election=True) as stage:
        stage.produce("m1")
        stage.await_seen("Everyone knows that m1 is committed.", lambda seen: stage.high_watermarks(seen) == [1, 1, 1])
        _cut_off(stage)
        stage.produce("m2")
        stage.expect("m2 is acknowledged by the leader alone", seen=stage.seen.isr, expected=(1,))
        began = time.monotonic()
        sent = step("produce", record="m3")
        stage.take(
            "The leader is killed; m3 is sent at once.", lambda: _kill_and_send(stage), step("kill", broker=1), sent
        )
        waited = stage.answered("m3") - began
        stage.fact("seconds from the kill until the next record was acknowledged", round(waited, 2))
        stage.expect("m3 is acknowledged", seen=dict(stage.seen.acknowledged or ())["m3"], expected=1)
        stage.expect("m2 is the price", seen=stage.read(), expected=["m1", "m3"])
        stage.start(1)
        stage.expect("every replica agrees", seen=[stage.log(b) for b in (1, 2, 3)], expected=[["m1", "m3"]] * 3)

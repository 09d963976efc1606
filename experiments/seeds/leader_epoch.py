"""Document 001, leader epochs: how a follower truncates decides whether a committed record is kept."""

from __future__ import annotations

from kafka_chaos.harness.scenario.house import BEFORE_KIP_101, House
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.server_properties import BROKER_DATA
from kafka_chaos.harness.storage.power_loss import cut_last_batch
from kafka_chaos.reference_model.cluster_model import step

# A parked fetch lasts 25 s: the follower hears of the high watermark one record late, for as long as the steps take.
# Each act has a cluster of its own: a new topic's first fetch would wait for the end of the one that is parked.
_SLOW_FETCHES = {
    "replica.fetch.wait.max.ms": 25_000,
    "replica.lag.time.max.ms": 300_000,
    "replica.socket.timeout.ms": 30_000,
}
TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"

A_WITHOUT = House(
    name="before KIP-101, slow fetches",
    protocol=TRUNCATE_TO_HIGH_WATERMARK,
    fresh=True,
    configs={**BEFORE_KIP_101, **_SLOW_FETCHES},
)
A_WITH = House(name="slow fetches", fresh=True, configs=_SLOW_FETCHES)
A_TWO = House(
    name="before KIP-101, two brokers, slow fetches",
    brokers=2,
    protocol=TRUNCATE_TO_HIGH_WATERMARK,
    fresh=True,
    configs={**BEFORE_KIP_101, **_SLOW_FETCHES},
)
B_WITHOUT = House(
    name="before KIP-101, two brokers", brokers=2, protocol=TRUNCATE_TO_HIGH_WATERMARK, configs=BEFORE_KIP_101
)
B_WITH = House(name="two brokers", brokers=2)


@scenario("leader-epoch-A", document="001", title="Leader epochs keep a committed record that a high watermark drops")
def leader_epoch_a(play: Play) -> None:
    """m1 and m2 are committed and acknowledged on three replicas, but broker 3 has only heard that m1 is. The leader
    dies, and broker 3 becomes a follower of broker 2, which it can't reach. By its high watermark it drops m2 at once;
    with leader epochs it waits to ask. Then broker 2 dies too and broker 3 leads: without epochs m2 is lost for good.
    """
    with play.act("without epochs", house=A_WITHOUT, controller=3) as stage:
        _only_3_is_left(stage)
        stage.expect("broker 3 holds m1 alone", seen=stage.log(3), expected=["m1"])
        stage.expect("its epochs", seen=stage.replica(3).epochs, expected=((0, 0), (2, 1)))
        stage.expect("a consumer sees m1 alone", seen=stage.read(), expected=["m1"])
        stage.fact("truncation", stage.await_line(3, "Truncating", stage.topic, "due to local high watermark 1"))
    with play.act("with epochs", house=A_WITH, controller=3) as stage:
        _only_3_is_left(stage)
        stage.expect("broker 3 holds m1 and m2", seen=stage.log(3), expected=["m1", "m2"])
        stage.expect("its epochs", seen=stage.replica(3).epochs, expected=((0, 0), (2, 2)))
        stage.expect("a consumer sees m1 and m2", seen=stage.read(), expected=["m1", "m2"])
    with play.act("as the document tells it", house=A_TWO, replicas=(1, 2), controller=2) as stage:
        _the_follower_restarts(stage)


def _the_follower_restarts(stage: Stage) -> None:
    """Two replicas, a follower that restarts, a leader that dies: on this version nothing is lost, and here is why.

    The follower does truncate m2 by its high watermark. But to restart it has to end its session, and with that it
    leaves the ISR: it can't be elected before it has fetched m2 again.
    """
    stage.produce("m1")
    stage.produce("m2")
    stage.await_seen(
        "The follower has checkpointed that one record is committed.",
        lambda seen: seen.replicas[2].checkpointed_high_watermark == 1,
    )
    stage.kill(2)
    stage.expect("with its session it has left the ISR", seen=stage.seen.isr, expected=(1,))
    stage.cut(2, 1)
    stage.start(2)
    stage.expect("back, it has dropped m2 by its high watermark", seen=stage.log(2), expected=["m1"])
    stage.kill(1)
    stage.expect(
        "it is not elected: it is not in the ISR", seen=(stage.seen.leader, stage.seen.isr), expected=(0, (1,))
    )
    stage.start(1)
    stage.expect("m2 is kept", seen=[stage.log(1), stage.log(2)], expected=[["m1", "m2"], ["m1", "m2"]])


def _only_3_is_left(stage: Stage) -> None:
    stage.produce("m1")
    stage.produce("m2")
    stage.expect("both are acknowledged", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
    stage.expect("broker 3 knows of one committed record", seen=stage.replica(3).high_watermark, expected=1)
    stage.cut(3, 2)
    stage.kill(1)
    stage.kill(2)


@scenario(
    "leader-epoch-B", document="001", title="Leader epochs keep two logs from diverging under equal high watermarks"
)
def leader_epoch_b(play: Play) -> None:
    """Both replicas of a committed m2 go down, and broker 2 loses it with its power. It returns first, leads, and
    takes m3 at the same offset. Broker 1 returns: by its high watermark it finds nothing to truncate and keeps m2,
    so that two logs differ for good and nobody is told. With leader epochs it asks, truncates m2 and fetches m3.
    """
    for name, house in (("without epochs", B_WITHOUT), ("with epochs", B_WITH)):
        with play.act(name, house=house, replicas=(1, 2), controller=1) as stage:
            _both_down_and_the_follower_first(stage)
            kept = "m2" if house is B_WITHOUT else "m3"
            stage.expect("broker 1's log", seen=stage.log(1), expected=["m1", kept, "m4"])
            stage.expect("broker 2's log", seen=stage.log(2), expected=["m1", "m3", "m4"])
            stage.await_seen(
                "Both brokers know that m4 is committed.", lambda seen: stage.high_watermarks(seen) == [3, 3]
            )
            stage.expect("both high watermarks are equal", seen=stage.high_watermarks(), expected=[3, 3])
            if house is B_WITH:
                epochs = [stage.replica(broker).epochs for broker in (1, 2)]
                stage.expect("both have the same epochs", seen=epochs[0] == epochs[1])


def _both_down_and_the_follower_first(stage: Stage) -> None:
    stage.produce("m1")
    stage.produce("m2")
    stage.expect_eventually(
        "both checkpoints say 2",
        lambda: [stage.eyes.files(broker).high_watermark for broker in (1, 2)],
        expected=[2, 2],
    )
    stage.settle("Both brokers have checkpointed the high watermark 2.")
    stage.kill(1)
    stage.kill(2)
    stage.take(
        "Broker 2 had lost its power: m2 was not flushed, and is gone.",
        lambda: cut_last_batch(stage.node(2), stage.topic, 0),
        step("power_loss", broker=2, kept=1),
    )
    stage.start(2)
    stage.produce("m3")
    stage.start(1)
    stage.produce("m4")


@scenario("leader-epoch-checkpoint", document="001", title="leader-epoch-checkpoint through restarts, line by line")
def leader_epoch_checkpoint(play: Play) -> None:
    """The file's first line is its version, the second the number of entries, then come `epoch start-offset` lines. A
    new line comes with the first leader of an epoch; the epoch goes up by one when the controller changes the
    leader and when it takes a dead replica out of the ISR, and not when a replica joins the ISR.
    """
    with play.act("two replicas", house=B_WITH, replicas=(1, 2), controller=2) as stage:
        said: list[dict[str, str]] = []

        def note(when: str, expected: str) -> None:
            text = stage.node(1).read_file(f"{BROKER_DATA}/{stage.topic}-0/leader-epoch-checkpoint").decode()
            said.append({"when": when, "broker 1's file": " / ".join(text.split("\n")[:-1])})
            stage.expect(f"the file of broker 1: {when}", seen=text, expected=expected)

        note("new", "0\n1\n0 0\n")
        stage.produce("message1")
        note("after message1, nothing is new", "0\n1\n0 0\n")
        stage.stop(1)
        stage.expect(
            "another leader, another epoch", seen=(stage.seen.leader, stage.seen.leader_epoch), expected=(2, 1)
        )
        stage.start(1)
        stage.expect("joining the ISR leaves the epoch as it is", seen=stage.seen.leader_epoch, expected=1)
        stage.produce("message2")
        note("broker 1 was shut down and is back, with message2 of broker 2's epoch", "0\n2\n0 0\n1 1\n")
        stage.kill(2)
        epoch = stage.seen.leader_epoch or 0
        stage.expect("broker 1 leads", seen=stage.seen.leader, expected=1)
        note("broker 2, leader and controller, was killed", f"0\n3\n0 0\n1 1\n{epoch} 2\n")
        stage.start(2)
        stage.produce("message3")
        stage.kill(2)
        stage.expect(
            "a dead follower leaves the ISR in a new epoch",
            seen=(stage.seen.leader, stage.seen.leader_epoch, stage.seen.isr),
            expected=(1, epoch + 1, (1,)),
        )
        note("the follower was killed", f"0\n4\n0 0\n1 1\n{epoch} 2\n{epoch + 1} 3\n")
        stage.fact("the file, line after line", said)

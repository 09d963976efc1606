"""Leader epochs: how a follower truncates its log decides whether a committed record is kept."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clusters import BEFORE_KIP_101, ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.power_loss import cut_last_batch
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA
from kafka_chaos.reference_model.lockstep.cluster_model import step

# A fetch waits for 25 s, so the follower learns of the high watermark one record late for as long as the steps take.
# Each act has a cluster of its own: a new topic's first fetch would wait for the end of the fetch that is waiting.
SLOW_FETCHES = {
    "replica.fetch.wait.max.ms": 25_000,
    "replica.lag.time.max.ms": 300_000,
    "replica.socket.timeout.ms": 30_000,
}
TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"

A_WITHOUT = ClusterProfile(
    name="before KIP-101, slow fetches",
    protocol=TRUNCATE_TO_HIGH_WATERMARK,
    fresh=True,
    configs={**BEFORE_KIP_101, **SLOW_FETCHES},
)
A_WITH = ClusterProfile(name="slow fetches", fresh=True, configs=SLOW_FETCHES)
A_TWO = ClusterProfile(
    name="before KIP-101, two brokers, slow fetches",
    brokers=2,
    protocol=TRUNCATE_TO_HIGH_WATERMARK,
    fresh=True,
    configs={**BEFORE_KIP_101, **SLOW_FETCHES},
)
B_WITHOUT = ClusterProfile(
    name="before KIP-101, two brokers", brokers=2, protocol=TRUNCATE_TO_HIGH_WATERMARK, configs=BEFORE_KIP_101
)
B_WITH = ClusterProfile(name="two brokers", brokers=2)


@scenario(
    "leader-epoch-A",
    title="Leader epochs keep a committed record that a high watermark drops",
    needs_zookeeper="its first act truncates as before KIP-101, which no broker in KRaft mode does",
)
def leader_epoch_a(play: Play) -> None:
    """m1 and m2 are committed and acknowledged on three replicas, but broker 3 only knows that m1 is committed. The
    leader dies, and broker 3 becomes a follower of broker 2, which it can't reach. If it truncates to its high
    watermark, it drops m2 at once. With leader epochs, it waits until it can ask broker 2. Then broker 2 dies too and
    broker 3 leads: without leader epochs, m2 is lost for good.
    """
    with play.act("without leader epochs", profile=A_WITHOUT, controller=3) as stage:
        only_3_is_left(stage)
        stage.expect("Broker 3 holds only m1", stage.log(3), ["m1"])
        stage.expect("Broker 3's leader epochs", stage.replica(3).epochs, ((0, 0), (2, 1)))
        stage.expect("A consumer reads only m1", stage.read(), ["m1"])
        stage.fact("broker 3's log", stage.await_line(3, "Truncating", stage.topic, "due to local high watermark 1"))
    with play.act("with leader epochs", profile=A_WITH, controller=3) as stage:
        only_3_is_left(stage)
        stage.expect("Broker 3 holds m1 and m2", stage.log(3), ["m1", "m2"])
        stage.expect("Broker 3's leader epochs", stage.replica(3).epochs, ((0, 0), (2, 2)))
        stage.expect("A consumer reads m1 and m2", stage.read(), ["m1", "m2"])
    with play.act("as the document describes it", profile=A_TWO, replicas=(1, 2), controller=2) as stage:
        _the_follower_restarts(stage)


def _the_follower_restarts(stage: Stage) -> None:
    """Two replicas, a follower that restarts, a leader that dies: in this version nothing is lost.

    The follower does truncate m2, to its high watermark. But its restart ends its session, and so it leaves the ISR.
    It can't be elected before it has fetched m2 again.
    """
    stage.produce("m1")
    stage.produce("m2")
    stage.await_seen(
        "The follower has checkpointed the high watermark 1.",
        lambda seen: seen.replicas[2].checkpointed_high_watermark == 1,
    )
    stage.kill(2)
    stage.expect("Its session has ended, so it has left the ISR", stage.seen.isr, (1,))
    stage.cut(2, 1)
    stage.start(2)
    stage.expect("After its restart it has truncated m2, to its high watermark", stage.log(2), ["m1"])
    stage.kill(1)
    leader_and_isr = (stage.seen.leader, stage.seen.isr)
    stage.expect("It is not elected, because it is not in the ISR", leader_and_isr, (0, (1,)))
    stage.start(1)
    stage.expect("m2 is kept", stage.logs(), [["m1", "m2"], ["m1", "m2"]])


def only_3_is_left(stage: Stage) -> None:
    """Scenario A: two acknowledged records, of which broker 3 knows one to be committed; then it alone is left."""
    stage.produce("m1")
    stage.produce("m2")
    stage.expect("Both records are acknowledged", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
    stage.expect("Broker 3 knows of one committed record", stage.replica(3).high_watermark, 1)
    stage.cut(3, 2)
    stage.kill(1)
    stage.kill(2)


@scenario(
    "leader-epoch-B",
    title="Leader epochs keep two logs with equal high watermarks from diverging",
    needs_zookeeper="its first act truncates as before KIP-101, which no broker in KRaft mode does",
)
def leader_epoch_b(play: Play) -> None:
    """Both replicas of the committed record m2 go down, and broker 2 loses m2 in a power failure. Broker 2 returns
    first, leads, and appends m3 at the same offset. Then broker 1 returns. By its high watermark it has nothing to
    truncate, so it keeps m2: the two logs differ for good, and no client gets an error. With leader epochs, broker 1
    asks broker 2, truncates m2 and fetches m3.
    """
    for name, profile in (("without leader epochs", B_WITHOUT), ("with leader epochs", B_WITH)):
        with play.act(name, profile=profile, replicas=(1, 2), controller=1) as stage:
            both_down_and_the_follower_first(stage)
            kept = "m2" if profile is B_WITHOUT else "m3"
            stage.expect("Broker 1's log", stage.log(1), ["m1", kept, "m4"])
            stage.expect("Broker 2's log", stage.log(2), ["m1", "m3", "m4"])
            stage.await_committed("m4", 3)
            stage.expect("Both high watermarks are equal", stage.high_watermarks(), [3, 3])
            if profile is B_WITH:
                epochs = [stage.replica(broker).epochs for broker in (1, 2)]
                stage.expect("Both brokers have the same leader epochs", epochs[0] == epochs[1])


def both_down_and_the_follower_first(stage: Stage) -> None:
    """Scenario B: broker 2 loses m2 while both are down, comes back first and appends m3; then broker 1 comes back."""
    stage.produce("m1")
    stage.produce("m2")
    stage.expect_eventually(
        "Both brokers have checkpointed 2",
        lambda: [stage.observer.files(broker).high_watermark for broker in (1, 2)],
        [2, 2],
    )
    stage.settle("Both brokers have checkpointed the high watermark 2.")
    stage.kill(1)
    stage.kill(2)
    stage.take(
        "Power loss at broker 2: m2, which it had not flushed, is gone.",
        lambda: cut_last_batch(stage.node(2), stage.topic, 0),
        step("power_loss", broker=2, kept=1),
    )
    stage.start(2)
    stage.produce("m3")
    stage.start(1)
    stage.produce("m4")


@scenario(
    "leader-epoch-checkpoint",
    title="leader-epoch-checkpoint through restarts, line by line",
    needs_zookeeper="removing a dead replica from the ISR begins a leader epoch; in KRaft mode, since 3.6, it does not",
)
def leader_epoch_checkpoint(play: Play) -> None:
    """The file's first line is its version, the second the number of entries. `epoch start-offset` lines follow. Each
    new leader epoch adds a line. The controller increments the epoch when it changes the leader and when it removes a
    dead replica from the ISR, but not when a replica joins the ISR.
    """
    with play.act("two replicas", profile=B_WITH, replicas=(1, 2), controller=2) as stage:
        said: list[dict[str, str]] = []

        def note(when: str, expected: str) -> None:
            text = stage.node(1).read_file(f"{BROKER_DATA}/{stage.topic}-0/leader-epoch-checkpoint").decode()
            said.append({"when": when, "broker 1's file": " / ".join(text.split("\n")[:-1])})
            stage.expect(f"Broker 1's file {when}", text, expected)

        note("of a new topic", "0\n1\n0 0\n")
        stage.produce("message1")
        note("after message1, which adds no line", "0\n1\n0 0\n")
        stage.stop(1)
        leader = (stage.seen.leader, stage.seen.leader_epoch)
        stage.expect("Broker 2 leads in a new epoch", leader, (2, 1))
        stage.start(1)
        stage.expect("Joining the ISR does not change the epoch", stage.seen.leader_epoch, 1)
        stage.produce("message2")
        note("after a shutdown, a restart and message2 from broker 2", "0\n2\n0 0\n1 1\n")
        stage.kill(2)
        epoch = stage.seen.leader_epoch or 0
        stage.expect("Broker 1 leads", stage.seen.leader, 1)
        note("after broker 2, leader and controller, is killed", f"0\n3\n0 0\n1 1\n{epoch} 2\n")
        stage.start(2)
        stage.produce("message3")
        stage.kill(2)
        stage.expect(
            "A dead follower leaves the ISR in a new epoch",
            (stage.seen.leader, stage.seen.leader_epoch, stage.seen.isr),
            (1, epoch + 1, (1,)),
        )
        note("after the follower is killed", f"0\n4\n0 0\n1 1\n{epoch} 2\n{epoch + 1} 3\n")
        stage.fact("the file, step by step", said)

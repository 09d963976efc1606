"""Replica recovery: what each acks setting keeps when a leader dies before its records are replicated.

X, Y and Z are brokers 1, 2 and 3. Z is cut off before M3, Y before M4, then X is killed: X holds all four records,
Y lacks M4, Z lacks both.
"""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clients import Clients
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage

X, Y, Z = 1, 2, 3
NAMES = {X: "X", Y: "Y", Z: "Z"}


def _until_x_dies(stage: Stage, *, acks: str, idempotent: bool = False, second: str = "p") -> None:
    """M1 and M2 everywhere, M3 on X and Y, M4 on X alone; then X is killed."""
    for record in ("M1", "M2"):
        stage.produce(record, acks=acks, idempotent=idempotent)
    stage.await_committed("M2", 2)
    stage.cut(Z, X)
    stage.produce("M3", acks=acks, idempotent=idempotent)
    stage.cut(Y, X)
    stage.produce("M4", acks=acks, idempotent=idempotent, producer=second)
    stage.expect(
        "X holds all records, Y lacks M4, Z lacks M3 and M4",
        stage.logs(),
        [["M1", "M2", "M3", "M4"], ["M1", "M2", "M3"], ["M1", "M2"]],
    )
    stage.kill(X)
    stage.expect("Y is elected", (stage.seen.leader, stage.seen.leader_epoch), (Y, 1))


def _x_returns(stage: Stage) -> None:
    stage.start(X)
    stage.expect("X is in sync again", stage.seen.isr, (X, Y, Z))
    logs = stage.logs()
    stage.expect("All logs are equal", logs[0] == logs[1] == logs[2])
    stage.fact("X's log", stage.await_line(X, "Truncating to offset 3", stage.topic))
    lines = stage.node(X).log_since(stage.began).splitlines()
    further = [line for line in lines if stage.topic in line and "Truncating to offset 2" in line]
    stage.expect("X truncated only M4, because Y has M3 too", further, [])


@scenario("acks-all-recovery", title="acks=all loses nothing; without idempotence, the retry duplicates M3")
def acks_all_recovery(play: Play) -> None:
    """X dies before it acknowledges M3 and M4, so their producers retry both. Y is elected and already holds M3.
    Without idempotence, Y appends M3 a second time; with idempotence, Y recognizes M3 by its sequence number. Z fetches
    M3 from Y. X returns, truncates what Y lacks, and fetches the rest.
    """
    with play.act("without idempotence", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="all", second="q")
        answered = stage.acknowledged
        stage.expect("M3 is in the log twice, M4 once, nothing is lost", sorted(stage.log(Y)), _M3_TWICE)
        stage.expect("The first M3 is the original", stage.log(Y)[:3], ["M1", "M2", "M3"])
        epochs = [epoch for _, _, epoch in stage.replica(Y).log or ()]
        stage.expect("The retries are in epoch 1", epochs, [0, 0, 0, 1, 1])
        offsets = sorted((answered["M3"] or 0, answered["M4"] or 0))
        stage.expect("M3 and M4 are acknowledged at the offsets of the retries", offsets, [3, 4])
        stage.expect("Z follows Y", stage.log(Z) == stage.log(Y))
        _x_returns(stage)
        stage.expect("No replica dropped M3", stage.log(X)[2], "M3")
    with play.act("with idempotence", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="all", idempotent=True, second="q")
        stage.expect("There is no duplicate", stage.log(Y), ["M1", "M2", "M3", "M4"])
        expected = {"M1": 0, "M2": 1, "M3": 2, "M4": 3}
        stage.expect("M3 is acknowledged at its original offset", stage.acknowledged, expected)
        _x_returns(stage)


_M3_TWICE = ["M1", "M2", "M3", "M3", "M4"]


@scenario("acks-1-recovery", title="acks=1: an acknowledged record is lost for good")
def acks_1_recovery(play: Play) -> None:
    """Only X holds M4 and acknowledges it, then X dies. Y is elected without M4. The producer has no reason to send M4
    again. When X returns, it truncates its own copy. No client gets an error.
    """
    with play.act("M4 is acknowledged", controller=Y, names=NAMES) as stage:
        _until_x_dies(stage, acks="1")
        expected = {"M1": 0, "M2": 1, "M3": 2, "M4": 3}
        stage.expect("All four records are acknowledged", stage.acknowledged, expected)
        stage.expect("M4 is gone", stage.log(Y), ["M1", "M2", "M3"])
        _x_returns(stage)
        stage.expect("X has truncated M4", stage.log(X), ["M1", "M2", "M3"])
        errors = [answer.error for answer in stage.clients.answers() if answer.error]
        stage.expect("No record got an error", errors, [])


@scenario("acks-0", title="acks=0: records are lost without a single error")
def acks_0(play: Play) -> None:
    """The broker acknowledges nothing: a producer reports a record as delivered once it has handed the record to its
    socket. A record that only the leader has is lost with the leader. A record that the broker refuses is lost at once.
    The producer reports success for both.
    """
    with play.act("handed to the socket", names=NAMES, controller=Y, configs={"max.message.bytes": 300}) as stage:
        stage.produce("M1", acks="0")
        stage.expect("M1 has no offset", stage.seen.acknowledged, (("M1", None),))
        stage.await_committed("M1", 1)
        stage.cut(Y, X)
        stage.cut(Z, X)
        stage.produce("M2", acks="0")
        stage.expect("Only X has M2", stage.logs(), [["M1", "M2"], ["M1"], ["M1"]])
        stage.kill(X)
        stage.start(X)
        stage.expect("M2 is gone", stage.logs(), [["M1"]] * 3)
        with Clients(stage.lease.cluster.bootstrap_servers, stage.topic) as other:
            other.send("M3" + "x" * 1000, producer="too large", acks="0")
            stage.expect_eventually(
                "M3, too large for the topic, is reported as delivered",
                lambda: [answer.error for answer in other.answers()],
                [None],
            )
            refusal = stage.await_line(stage.seen.leader or Y, "Closing connection due to error", "ack=0")
            stage.fact("the leader's log", refusal)
        # The first producer may not know the new leader yet, and would lose M4 just as silently.
        stage.produce("M4", acks="0", producer="another")
        stage.expect("M3 was never written", stage.log(Y), ["M1", "M4"])
        failed = [answer for answer in stage.clients.answers() if answer.error]
        stage.expect("No record got an error", failed, [])

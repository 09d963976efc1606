"""Transactions: markers and the last stable offset, fencing, time-outs, and a coordinator that fails over.

A producer here is a sequence of requests, each sent until it is answered. What brokers answer, write and show is their
own.
"""

from __future__ import annotations

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.transactions.stage import TransactionsStage, transactional_act
from kafka_chaos.contract.metadata import KRAFT

_CONFIGS = {
    # Every ten seconds by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
TRANSACTIONS = ClusterProfile(name="transactions", links=True, configs=_CONFIGS)
SECOND_VERSION = ClusterProfile(
    name="transactions, Kafka 4.3.1 in KRaft mode",
    metadata_mode=KRAFT,
    kafka_version="4.3.1",
    links=True,
    configs=_CONFIGS,
)
OLD_PROTOCOL, NEW_PROTOCOL = "Kafka {version}", "Kafka {version}, transaction version 2"
BOTH_PROTOCOLS = {
    OLD_PROTOCOL: (TRANSACTIONS, False),
    NEW_PROTOCOL: (SECOND_VERSION, True),
}
"""Acts: the cluster, and whether each transaction has an epoch of its own (KIP-890, part 2)."""


@scenario("txn-commit-abort", title="A commit and an abort: markers, the last stable offset, and what consumers read")
def txn_commit_abort(play: Play) -> None:
    """A transaction writes to two partitions. Until it ends, the last stable offset stays at its first record, and a
    consumer with isolation.level=read_committed is given nothing from there on, not even what another producer has
    committed meanwhile. A read_uncommitted consumer is given all of it, up to the high watermark. Then the coordinator
    has a marker written to every partition of the transaction. A COMMIT shows all of its records at once, an ABORT
    hides them for good. Markers take an offset each, and no consumer gets them. With transaction version 2, a marker
    has the epoch of the transaction that comes next.
    """
    for name, (profile, bumps) in BOTH_PROTOCOLS.items():
        with transactional_act(play, name, profile=profile, ids=("t", "u"), bumps=bumps) as stage:
            _commit_and_abort(stage, next_epoch=int(bumps))


def _commit_and_abort(stage: TransactionsStage, *, next_epoch: int) -> None:
    stage.initialise("p")
    stage.write("p", "a1", partition=0)
    stage.expect("The first record is there for read_uncommitted only", _given(stage), ([], ["a1"]))
    stage.write("p", "a2", partition=1)
    stage.initialise("q", id="u")
    stage.write("q", "x", partition=0)
    stage.commit("q")
    stage.expect("q's transaction has ended, behind p's record", stage.log(0), ["a1", "x", "COMMIT"])
    stage.expect("The last stable offset waits for p", (stage.stable(0), stage.stable(1)), ((0, 3), (0, 1)))
    stage.expect("And so does what q has committed", _given(stage), ([], ["a1", "x"]))
    stage.commit("p")
    stage.expect("A marker ends p's transaction", stage.log(0), ["a1", "x", "COMMIT", "COMMIT"])
    stage.expect("In both partitions", stage.log(1), ["a2", "COMMIT"])
    epochs = [epoch for _, name, epoch in stage.now.partitions[1].log if name == "COMMIT"]
    stage.expect("The marker's epoch", epochs, [next_epoch])
    stage.expect("All of it is readable", _given(stage), (["a1", "x"], ["a1", "x"]))
    stage.write("p", "b1", partition=0)
    stage.write("p", "b2", partition=1)
    stage.abort("p")
    stage.expect("An aborted record stays in the log", stage.log(0)[-2:], ["b1", "ABORT"])
    stage.expect("read_committed hides it", _given(stage), (["a1", "x"], ["a1", "x", "b1"]))
    stage.expect("In both partitions", stage.committed(1), ["a2"])
    stage.expect("Nothing is open any more", (stage.stable(0), stage.stable(1)), ((6, 6), (4, 4)))
    state, _ = stage.transaction
    stage.expect("The coordinator has completed the abort", state, "CompleteAbort")


@scenario("txn-fencing", title="A zombie: whoever takes the transactional id fences the producer that had it")
def txn_fencing(play: Play) -> None:
    """p1 has an open transaction when p2 begins with the same transactional id. The coordinator aborts the transaction
    in the next epoch and gives p2 the one after it. p1 does not know, and goes on: the leader refuses its record,
    because the marker of the abort has a later epoch. The coordinator refuses its next partition and its commit. p2's
    transaction is not disturbed, and nothing of p1's is ever read as committed.
    """
    for name, (profile, bumps) in BOTH_PROTOCOLS.items():
        with transactional_act(play, name, profile=profile, bumps=bumps) as stage:
            stage.initialise("p1")
            stage.write("p1", "a", partition=0)
            stage.initialise("p2")
            stage.expect("p1's transaction is aborted", stage.log(0), ["a", "ABORT"])
            epochs = [epoch for _, _, epoch in stage.now.partitions[0].log]
            stage.expect("In an epoch that nobody has", epochs, [0, 1])
            stage.expect("p2 begins in the one after it", stage.transaction, ("Empty", 2))
            stage.write("p2", "b", partition=0)
            stage.write("p1", "c", partition=0)
            stage.expect("The leader refuses p1's record", stage.error("p1"), "INVALID_PRODUCER_EPOCH")
            stage.write("p1", "d", partition=1)
            refusal = "INVALID_PRODUCER_EPOCH" if bumps else "PRODUCER_FENCED"
            stage.expect("Another partition is refused, too", stage.error("p1"), refusal)
            stage.commit("p1")
            stage.expect("The coordinator refuses p1's commit", stage.error("p1"), "PRODUCER_FENCED")
            stage.expect("p2's transaction is still open", stage.transaction, ("Ongoing", 2))
            stage.commit("p2")
            stage.expect("Only p2's record is committed", _given(stage), (["b"], ["a", "b"]))
            stage.expect("Nothing was written elsewhere", stage.log(1), [])


@scenario("txn-coordinator-failover", title="The coordinator is killed: the next one completes what was prepared")
def txn_coordinator_failover(play: Play) -> None:
    """The coordinator answers a commit as soon as __transaction_state has it, and has the markers written after that. A
    link holds one of two markers, and the coordinator is killed: the transaction is prepared, one partition has its
    marker, the other one has none. The next coordinator replays __transaction_state and has both markers written, since
    it can't know which of them are there: the second one in the first partition ends nothing. Then the marker that was
    held arrives, while the producer's next transaction is open: the leader knows of a later coordinator and refuses it.
    In the second act the coordinator is killed while a transaction is open. The producer goes on with the next one.
    """
    with transactional_act(
        play, "between prepare and complete", profile=TRANSACTIONS, beside_coordinator=True
    ) as stage:
        stage.initialise("p")
        stage.write("p", "a", partition=0)
        stage.write("p", "b", partition=1)
        stage.hold_markers(1)
        stage.commit("p")
        stage.expect("The commit is answered", stage.error("p"), "NONE")
        stage.expect("But not complete", stage.transaction, ("PrepareCommit", 0))
        stage.expect("Half of it is readable", (stage.committed(0), stage.committed(1)), (["a"], []))
        killed = stage.kill_coordinator()
        stage.expect("Another broker is coordinator", stage.coordinator != killed)
        stage.expect("The transaction is complete", stage.transaction, ("CompleteCommit", 0))
        stage.expect("All of it is readable", (stage.committed(0), stage.committed(1)), (["a"], ["b"]))
        stage.expect("The first marker is written again", stage.log(0), ["a", "COMMIT", "COMMIT"])
        stage.write("p", "c", partition=1)
        stage.release_markers()
        line = stage.await_line(stage.leader(1), "Invalid coordinator epoch", "(zombie)")
        stage.fact("the log of partition 1's leader", line)
        stage.expect("The late marker is refused", stage.log(1), ["b", "COMMIT", "c"])
        stage.abort("p")
        stage.expect("The producer goes on", (stage.log(1)[-1], stage.committed(1)), ("ABORT", ["b"]))
    with transactional_act(play, "in an open transaction", profile=TRANSACTIONS, beside_coordinator=True) as stage:
        stage.initialise("p")
        stage.write("p", "a", partition=0)
        killed = stage.kill_coordinator()
        stage.expect("Another broker is coordinator", stage.coordinator != killed)
        stage.expect("The transaction is still open", stage.transaction, ("Ongoing", 0))
        stage.write("p", "b", partition=1)
        stage.commit("p")
        stage.expect("All of it is readable", (stage.committed(0), stage.committed(1)), (["a"], ["b"]))


TIME_OUT_MS = 15_000
"""Longer than the steps before it take."""


@scenario("txn-timeout-abort", title="transaction.timeout.ms passes: the transaction is aborted, its producer fenced")
def txn_timeout_abort(play: Play) -> None:
    """A producer begins a transaction and does not end it. Read committed stands still until transaction.timeout.ms has
    passed: then the coordinator aborts the transaction by itself, in the next epoch. So the producer is fenced: its
    commit is refused, and so is every further record. In the old protocol it can't even abort. With transaction version
    2, the coordinator takes its abort for the one that has happened, and answers with the epoch to go on with. The next
    producer with the transactional id begins in the epoch after that.
    """
    for name, (profile, bumps) in BOTH_PROTOCOLS.items():
        with transactional_act(play, name, profile=profile, bumps=bumps) as stage:
            stage.initialise("p1", timeout_ms=TIME_OUT_MS)
            stage.write("p1", "a", partition=0)
            stage.write("p1", "b", partition=1)
            stage.expect("Nothing is readable", (stage.stable(0), stage.stable(1)), ((0, 1), (0, 1)))
            stage.await_time_out()
            stage.expect("The coordinator has aborted it", stage.transaction, ("CompleteAbort", 1))
            stage.expect("In both partitions", (stage.log(0), stage.log(1)), (["a", "ABORT"], ["b", "ABORT"]))
            stage.expect("The end is stable again", (stage.stable(0), stage.stable(1)), ((2, 2), (2, 2)))
            stage.commit("p1")
            refusal = "INVALID_TXN_STATE" if bumps else "PRODUCER_FENCED"
            stage.expect("The commit is refused", stage.error("p1"), refusal)
            stage.write("p1", "c", partition=0)
            stage.expect("And the next record", stage.error("p1"), "INVALID_PRODUCER_EPOCH")
            stage.abort("p1")
            answer = ("NONE", 1) if bumps else ("PRODUCER_FENCED", 0)
            seen = (stage.error("p1"), stage.now.producers["p1"].epoch)
            stage.expect("The answer to an abort, and the producer's epoch", seen, answer)
            stage.initialise("p2")
            stage.write("p2", "d", partition=0)
            stage.commit("p2")
            stage.expect("The next producer is not disturbed", _given(stage), (["d"], ["a", "d"]))


@scenario("txn-late-end", title="KAFKA-17754: a commit that comes late ends the next transaction, or is refused")
def txn_late_end(play: Play) -> None:
    """A producer asks for a commit, and a link holds the request. The producer gives up waiting, asks again, is
    answered, and begins the next transaction, which is to be aborted. Then the request that was held arrives. In the
    old protocol it names its transaction by producer id and epoch, which are still the same: it commits the half of the
    next transaction that is written, and the abort is refused. With transaction version 2 (KIP-890), each transaction
    has an epoch of its own: the late request is fenced.
    """
    with transactional_act(play, OLD_PROTOCOL, profile=TRANSACTIONS) as stage:
        _until_the_late_commit(stage)
        stage.expect("The late commit has ended the next transaction", stage.transaction, ("CompleteCommit", 0))
        stage.expect("Its first half is committed", stage.committed(0), ["a", "b"])
        stage.write("p", "c", partition=0)
        stage.expect("Its second half is refused", stage.error("p"), "TRANSACTION_ABORTABLE")
        stage.abort("p")
        stage.expect("And so is its abort", stage.error("p"), "INVALID_TXN_STATE")
        stage.expect("A record that was to be aborted is read as committed", stage.committed(0), ["a", "b"])
    with transactional_act(play, NEW_PROTOCOL, profile=SECOND_VERSION, bumps=True) as stage:
        _until_the_late_commit(stage)
        stage.expect("The next transaction is still open", stage.transaction, ("Ongoing", 1))
        stage.write("p", "c", partition=0)
        stage.abort("p")
        stage.expect("It is aborted", stage.log(0), ["a", "COMMIT", "b", "c", "ABORT"])
        stage.expect("Only the first transaction is committed", stage.committed(0), ["a"])


def _until_the_late_commit(stage: TransactionsStage) -> None:
    stage.initialise("p")
    stage.write("p", "a", partition=0)
    stage.hold_end("p", commit=True)
    stage.commit("p")
    stage.expect("The second request is answered", (stage.error("p"), stage.committed(0)), ("NONE", ["a"]))
    stage.write("p", "b", partition=0)
    stage.release()


def _given(stage: TransactionsStage) -> tuple[list[str], list[str]]:
    """What consumers of both isolation levels are given of partition 0: read_committed first."""
    return stage.committed(0), stage.uncommitted(0)

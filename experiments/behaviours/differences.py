"""Where the documents and the brokers differ, document by document."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.registry import Difference
from kafka_chaos.experiments.behaviours.sources import INTERNALS, LEADER_AND_ISR, RECOVERY

DIFFERENCES = (
    Difference(
        LEADER_AND_ISR,
        says="While two brokers are considered the leader, clients can neither publish nor subscribe.",
        brokers_do="No broker appends records, and a consumer that sends its leader epoch is fenced. But any replica "
        "answers a consumer that sends no leader epoch, up to its high watermark: committed records can still be read.",
        since="2.4 (KIP-392)",
        shown_by="split-brain",
    ),
    Difference(
        LEADER_AND_ISR,
        says="A partition's state has a field zk_version.",
        brokers_do="The field is called partition_epoch; its value and its place in the request are the same.",
        since="3.0 (KIP-497, KIP-500)",
        shown_by="leader-and-isr",
    ),
    Difference(
        LEADER_AND_ISR,
        says="The newest LeaderAndIsr is version 5.",
        brokers_do="3.9 sends version 7. Version 6 adds a leader recovery state per partition (KIP-704), version 7 a "
        "flag for KRaft controllers (KIP-866). A controller in ZooKeeper mode leaves the type of version 5 at 0.",
        since="3.2 (version 6), 3.4 (version 7)",
        shown_by="leader-and-isr",
    ),
    Difference(
        LEADER_AND_ISR,
        says="makeFollower returns false, and its steps are skipped, if the leader is the same and the epoch is equal "
        "or one greater.",
        brokers_do="A broker accepts every newer leader epoch, even with the same leader, and restarts its fetcher. "
        "It ignores only a request in the leader epoch that it already has.",
        since="2.1.0 (KIP-320)",
        shown_by="leader-and-isr",
    ),
    Difference(
        INTERNALS,
        says="ZooKeeper notices a change in the partition's ISR, and the controller watches that.",
        brokers_do="The controller watches the registrations of the brokers. It only learns that a broker is gone, and "
        "looks up the partitions that this broker led itself.",
        since="all versions in ZooKeeper mode that kafka-chaos runs",
        shown_by="election-on-failure",
    ),
    Difference(
        INTERNALS,
        says="After the broker restarts, leader-epoch-checkpoint has another line, 2 2.",
        brokers_do="A restart alone adds no line, since joining the ISR does not change the leader epoch. The line in "
        "the document comes from another election.",
        since="seen on 3.9.1",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        INTERNALS,
        says="Only the leader serves reads: consumers fetch from it alone.",
        brokers_do="From version 11 on, a follower answers a consumer's Fetch, up to the high watermark that it knows. "
        "Consumers use this only if replica.selector.class is set. A follower still refuses producers.",
        since="2.4 (KIP-392)",
        shown_by="leader-only",
    ),
    Difference(
        INTERNALS,
        says="Two replicas, the follower restarts and truncates, the leader dies: the follower leads without message2.",
        brokers_do="A restart ends the broker's session, so it leaves the ISR and can't be elected before it has "
        "fetched message2 again: nothing is lost. The loss needs three replicas. There, a replica becomes the follower "
        "of another leader and truncates without a restart.",
        since="all versions that kafka-chaos runs; both acts truncate as brokers did before 0.11",
        shown_by="leader-epoch-A",
    ),
    Difference(
        INTERNALS,
        says="Each change of the leader raises the leader epoch by one.",
        brokers_do="If the dead leader was also the controller, the leader epoch rises by two. The new controller "
        "first removes the dead broker from the ISR, which leaves no leader, and then elects one.",
        since="seen on 3.9.1",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        INTERNALS,
        says="The second line of leader-epoch-checkpoint is the current leader epoch.",
        brokers_do="The second line is the number of lines that follow. The first line is the version of the format. "
        "Each line after the second is a leader epoch with the first offset written in it.",
        since="0.11.0, the first version with this file (KIP-101)",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        RECOVERY,
        says="With fewer in-sync replicas than min.insync.replicas, a producer gets NotEnoughReplicas.",
        brokers_do="That holds before the append. A record that was appended before the ISR shrank used to get "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND. Since 3.7 the high watermark stays below it while the ISR is too small, and "
        "the request times out.",
        since="3.7.0 (KAFKA-15583)",
        shown_by="min-insync-replicas",
    ),
    Difference(
        RECOVERY,
        says="When X is back, it drops everything after M2, where the leader changed: M3 and M4.",
        brokers_do="X asks the new leader where epoch 0 ends in its log, and drops only what Y lacks: M4. M3 has the "
        "same offset and epoch on both.",
        since="0.11.0 (KIP-101); before it, X dropped everything above its high watermark, M3 and M4",
        shown_by="acks-all-recovery",
    ),
    Difference(
        RECOVERY,
        says="acks=1 is the default.",
        brokers_do="acks is a setting of the producer. Its default is acks=all in Kafka's own producer, and since "
        "1.0.0 in librdkafka, which sends the records here.",
        since="3.0.0 (KIP-679)",
        shown_by=None,
    ),
)

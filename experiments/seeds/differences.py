"""Where the seed documents and the brokers differ, in the order of the documents."""

from __future__ import annotations

from kafka_chaos.harness.scenario.differences import Difference

DIFFERENCES = (
    Difference(
        document="000",
        says="While two brokers are taken for the leader, clients can neither publish nor subscribe.",
        brokers_do="Records are taken by nobody, and a consumer that names its leader epoch is fenced. One that does "
        "not, or asks without an epoch, is answered by any replica up to its high watermark: what is "
        "committed can still be read.",
        since="2.4 (KIP-392)",
        shown_by="split-brain",
    ),
    Difference(
        document="000",
        says="A partition's state has a field zk_version.",
        brokers_do="It is called partition_epoch now; the number is the same, and so is its place in the request.",
        since="3.0 (KIP-497, KIP-500)",
        shown_by="leader-and-isr",
    ),
    Difference(
        document="000",
        says="The newest LeaderAndIsr is version 5.",
        brokers_do="3.9 sends version 7, with a leader recovery state per partition (since 6, KIP-704) and a flag "
        "for KRaft controllers (7, KIP-866). A controller in ZooKeeper mode leaves the type of version 5 "
        "at 0.",
        since="3.2 (version 6), 3.4 (version 7)",
        shown_by="leader-and-isr",
    ),
    Difference(
        document="000",
        says="makeFollower returns false, and its steps are skipped, when the leader is the same and the epoch "
        "equal or one greater.",
        brokers_do="Every newer leader epoch is taken, with the same leader too: the fetcher is set up anew. Only a "
        "request in the epoch that the broker has already is ignored.",
        since="2.1.0 (KIP-320)",
        shown_by="leader-and-isr",
    ),
    Difference(
        document="001",
        says="ZooKeeper notices a change in the partition's ISR, and the controller watches that.",
        brokers_do="The controller watches the registrations of the brokers: that one is gone is all it hears, and "
        "it looks up the partitions that this broker led itself.",
        since="all versions in ZooKeeper mode that we can run",
        shown_by="election-on-failure",
    ),
    Difference(
        document="001",
        says="When the broker is started again, leader-epoch-checkpoint gets another line, 2 2.",
        brokers_do="A restart alone adds none: joining the ISR leaves the leader epoch as it is. The document's line "
        "is that of another election.",
        since="seen on 3.9.1",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        document="001",
        says="Only the leader serves reads: consumers fetch from it alone.",
        brokers_do="A follower answers a consumer's Fetch from version 11 on, up to the high watermark that it "
        "knows. Consumers use that only where replica.selector.class is set; a producer is still refused.",
        since="2.4 (KIP-392)",
        shown_by="leader-only",
    ),
    Difference(
        document="001",
        says="Two replicas, the follower restarts and truncates, the leader dies: the follower leads without message2.",
        brokers_do="A broker that restarts has first left the ISR with its session, and is not elected before it has "
        "fetched again, so that nothing is lost. The loss shows with three replicas, where a follower "
        "becomes the follower of another leader and truncates without a restart.",
        since="all versions that we can run; both acts use the truncation of before 0.11",
        shown_by="leader-epoch-A",
    ),
    Difference(
        document="001",
        says="Each change of the leader raises the leader epoch by one.",
        brokers_do="Where the dead leader was also the controller it goes up by two: the new controller takes the "
        "dead broker out of the ISR, which leaves no leader, and then elects one.",
        since="seen on 3.9.1",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        document="001",
        says="The second line of leader-epoch-checkpoint is the current leader epoch.",
        brokers_do="It is the number of the lines that follow. The first line is the format's version, and each line "
        "after the second a leader epoch with the first offset written in it.",
        since="0.11.0, the first with such a file (KIP-101)",
        shown_by="leader-epoch-checkpoint",
    ),
    Difference(
        document="002",
        says="With fewer in-sync replicas than min.insync.replicas a producer gets NotEnoughReplicas.",
        brokers_do="Before the append it does. A record that was appended before the ISR shrank was answered "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND; since 3.7 the high watermark stays below it while the ISR is "
        "too small, and the request times out.",
        since="3.7.0 (KAFKA-15583)",
        shown_by="min-insync-replicas",
    ),
    Difference(
        document="002",
        says="X, when it is back, drops everything after M2, where the leader changed: M3 and M4.",
        brokers_do="X asks the new leader where epoch 0 ends there, and drops only what Y lacks: M4. M3 has the same "
        "offset and epoch on both.",
        since="0.11.0 (KIP-101); before it, X dropped what lay above its high watermark, M3 and M4",
        shown_by="acks-all-recovery",
    ),
    Difference(
        document="002",
        says="acks=1 is the default.",
        brokers_do="Not a broker's setting: Kafka's own producer has acks=all as its default, and librdkafka, which "
        "sends the records here, has had it since 1.0.0.",
        since="3.0.0 (KIP-679)",
        shown_by=None,
    ),
)

"""Where the seed documents and the brokers differ, in the order of the documents."""

from __future__ import annotations

from kafka_chaos.harness.scenario.differences import Difference

DIFFERENCES = (
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

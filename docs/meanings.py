"""The meaning of each column of a run directory, and of each exit code.

`generate.py` refuses to build if the code has one that is not here, or if one here is not in the code.
"""

from __future__ import annotations

from kafka_chaos.contract.run_directory import (
    CHECKPOINTS_FILE,
    EVENTS_FILE,
    EXPERIMENT_FILE,
    FINDINGS_FOLDER,
    GROUPS_FILE,
    LANES_FILE,
    LOGS_FOLDER,
    MANIFEST_FILE,
    PREDICTION_FILE,
    REPORT_FILE,
    TIMINGS_FILE,
    TRACE_FILE,
    VERDICT_FILE,
)

_LANE = {"lane": "Name of the lane.", "partition": "Partition of the lane's topic."}
_IDENTITY = {
    "producer_id": "Producer of the record; −1 if the record can't be decoded.",
    "seq": "The record's number, counted by its producer; −1 if the record can't be decoded.",
}

COLUMNS = {
    "produced": {
        **_LANE,
        **_IDENTITY,
        "key": "Key of the record; what is lost in a compacted lane is judged by it.",
        "tombstone": "1 if the record has no value, so that compaction removes its key; absent: it has one.",
        "offset": "Offset in the acknowledgement. There is none with `acks=0`, nor where a broker recognizes a late "
        "retry of an idempotent producer.",
        "invoke_ns": "When the producer accepted the record.",
        "complete_ns": "When the outcome was known.",
        "outcome": "`ok`: acknowledged. `fail`: certainly not written. `info`: may or may not be written.",
        "error": "Name of the client's error.",
        "transaction": "Number of the transaction that it was sent in, counted by its producer.",
        "source_producer_id": "In the output of a loop: the producer of the input that it was made of.",
        "source_seq": "In the output of a loop: the seq of the input that it was made of.",
    },
    "consumed": {
        **_LANE,
        **_IDENTITY,
        "consumer": "One assignment of a consumer; a rebalance or a seek starts a new name.",
        "offset": "Offset of the record.",
        "leader_epoch": "Leader epoch of the record.",
        "poll_ns": "When the record was read; strictly increases per consumer.",
        "reading_producer_id": "The producer in whose transaction the record was read; null outside of transactions.",
        "reading_transaction": "That transaction, as its producer counts it.",
    },
    "log": {**_LANE, **_IDENTITY, "offset": "Offset in the final log.", "key": "Key of the record."},
    "replicas": {
        **_LANE,
        **_IDENTITY,
        "broker": "Broker whose segments hold the record.",
        "offset": "Offset in the replica.",
        "leader_epoch": "Leader epoch of the record.",
        "producer_epoch": "The producer epoch that it was sent with, by which brokers recognise retries.",
        "kind": "`data`: a record; so is a row without a kind. `commit`, `abort`: the marker that ends a transaction "
        "in this partition. Its seq is −1, and its producer_id that of the last record before it with the same "
        "producer id of Kafka (−1 if there is none): it ends what is open there of that producer's transactional id.",
    },
    "transactions": {
        "lane": _LANE["lane"],
        "producer_id": "Its producer. Each incarnation of a transactional id is a producer with an id of its own.",
        "transaction": "The transaction's number, counted by its producer.",
        "transactional_id": "The producer's `transactional.id`.",
        "begin_ns": "When the transaction began. Its producer had been initialised before.",
        "end_ns": "When its end was answered or refused; null if it was left behind open.",
        "outcome": "`committed`: the commit was acknowledged. `aborted`: the abort was, or nobody asked "
        "for a commit. `info`: a commit was asked for, and its answer is not known.",
        "error": "Name of the client's error.",
        "initialised_ns": "When its producer was initialised, and so had fenced those before it. Without it, the begin "
        "of the producer's first transaction counts.",
        "commit_ns": "When its commit was asked for first; null if it was not, or if that is not known.",
    },
    "assignments": {
        **_LANE,
        "lane": "The lane that is read. So the group of a loop has rows of the loop's source.",
        "group": "Consumer group, if the consumer has one: `LANE-group` reads the lane, `LANE-loop` runs the loop that "
        "writes it.",
        "consumer": "The name in `consumed/` under which the partition was read.",
        "member": "The client that read it, as its group knows it; another one after a restart, even if static.",
        "generation": "Generation of the group; with KIP-848, the epoch of the member.",
        "isolation": "The consumer's `isolation.level`: `read_committed` or `read_uncommitted`.",
        "start_ns": "When the partition was assigned.",
        "end_ns": "When it was given back; null if that never happened, as with a member that crashed.",
    },
    "commits": {
        **_LANE,
        "lane": "The lane that is read, as in `assignments/`.",
        "group": "Consumer group, as in `assignments/`.",
        "consumer": "The name in `consumed/` under which the member had the partition.",
        "offset": "The next offset to read, as Kafka commits it.",
        "producer_id": "In a loop with transactions: the producer, in the lane that the loop writes.",
        "transaction": "In a loop with transactions: the transaction that it was sent in, counted by its producer.",
        "invoke_ns": "When it was asked for; of an automatic commit, the earliest time at which it may have been.",
        "complete_ns": "When its outcome was known.",
        "outcome": "`ok`: acknowledged. `fail`: refused. `info`: may or may not have taken effect. In a transaction it "
        "takes effect with that.",
        "error": "Name of the client's error.",
    },
    "deliveries": {
        **_LANE,
        **_IDENTITY,
        "group": "Share group: `LANE-share`.",
        "member": "The member that was given the record.",
        "offset": "Offset of the record.",
        "delivery_count": "The number of the delivery, as the broker counts.",
        "asked_ns": "A moment before which nobody had asked for this delivery: when the last poll began that left "
        "nothing for later. Without it, some anomalies are not judged.",
        "delivered_ns": "When the member was given it.",
        "acknowledgement": "`accept`, `release`, `reject` or `renew`; null: none was asked for.",
        "outcome": "Of the acknowledgement. `ok`: acknowledged. `fail`: refused, the member did not hold the record. "
        "`info`: may or may not have taken effect.",
        "error": "Name of the client's error.",
        "invoke_ns": "When the acknowledgement was given to the client, before which it was not sent.",
        "complete_ns": "When its outcome was known.",
    },
    "share_starts": {
        **_LANE,
        "group": "Share group: `LANE-share`.",
        "member": "The member whose process asked for it.",
        "offset": "The group's start offset in the partition: it is past what lies before.",
        "lag": "Records that the group was not past, as it was told.",
        "invoke_ns": "When it was asked for.",
        "complete_ns": "When it was told.",
    },
    "dead_letters": {
        **_LANE,
        "partition": "Partition of the letter in its own topic, `dlq.TOPIC`.",
        "offset": "Offset of the letter in its own topic.",
        "source_group": "The share group that its headers name.",
        "source_partition": "Partition of the record that its headers name; null, as `source_offset`, if they name "
        "no record of the lane's topic.",
        "source_offset": "Offset of that record.",
        "producer_id": "Producer of the record that the letter holds, as in `log/`; null, as `seq`, if it has no "
        "value.",
        "seq": "The record's number.",
        "key": "Key of the letter.",
        "delivery_count": "How often the record was delivered, as its headers say.",
        "cause": "Why, in the broker's words: rejected, or delivered as often as the limit allows.",
    },
    "findings": {
        **_LANE,
        **_IDENTITY,
        "anomaly": "Name of the anomaly.",
        "offset": "Offset of the record.",
        "cause": "What caused the anomaly, as far as the run shows it.",
    },
}

EXIT_CODES = {
    "CONFORMS": "Everything conforms to the prediction.",
    "VIOLATION": "A violation was found. Nothing else ends with this code.",
    "UNKNOWN": "The evidence does not suffice for a verdict.",
    "ENVIRONMENT": "The environment failed, for example no Docker engine, no Java or a full disk.",
    "USAGE": "Bad arguments, a bad experiment file or a bad run directory.",
    "BUG": "A bug in kafka-chaos.",
    "INTERRUPTED": "The command was interrupted.",
}

CONTENTS = {
    EXPERIMENT_FILE: "the experiment with all defaults, its seed, the schedule that was drawn, and versions",
    LANES_FILE: "the lanes as the model and the verification know them",
    TIMINGS_FILE: 'the time-outs that bounds of recovery follow from: `{"lanes": {lane: {time-out: milliseconds}}}`',
    "produced/*.parquet": "every record that was sent, with its outcome",
    "consumed/*.parquet": "every record that was read",
    "log/*.parquet": "the final log, read back",
    "replicas/*.parquet": "the records in each broker's segments, of a tiered topic also the remote ones, if collected",
    "transactions/*.parquet": "every transaction, with its outcome; only where a lane is transactional",
    "assignments/*.parquet": "who read what, in which isolation level; only where a lane has transactions or a group",
    "commits/*.parquet": "the offsets that members of groups committed, with outcomes; only where a lane has a group",
    GROUPS_FILE: 'the offsets that groups had committed in the end: `{"groups": {group: {"lane/partition": offset}}}`',
    CHECKPOINTS_FILE: "each broker's high watermarks, log end offsets and leader epochs",
    EVENTS_FILE: "faults, leader, ISR and controller changes, and everything else that happened, in order of time",
    f"{LOGS_FOLDER}/": "every container's log",
    TRACE_FILE: "every request to brokers and controllers, as a link saw it; only where connections pass links",
    PREDICTION_FILE: "lane → anomaly → status, and why",
    MANIFEST_FILE: 'of a run of kafka-chaos, written once all of the above is there: `{"files": {file: {"rows": of a '
    'table, "bytes": …, "sha256": …}}}`; of events.jsonl, as many bytes as there were',
    f"{FINDINGS_FOLDER}/*.parquet": "one row per anomalous record, with its cause",
    VERDICT_FILE: "verdicts, counts, first examples, and the ledger of evidence (below)",
    REPORT_FILE: "the report, one file",
}
"""Paths relative to the run directory, and what each holds."""

"""Relations between the tables of a run, each stated once: the rows that do not resolve, in SQL.

Guarantee: a relation that holds yields no row. relations.toml states them; SQLite evaluates them for every engine, over
the views of `VIEWS`.

An anomaly compares the records of several tables; a relation says what must hold for the tables to be of one run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.lane.families import AnyAnomaly, anomaly_named
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.verification.inputs.run_directory import Doubt

VIEWS: Mapping[str, str] = {
    "lanes": "lane, transactional, loop, idempotent, producers, cleaned, planned, lossless, replicas, begun_ns",
    "groups": "group, lane, judged, in_transaction, automatic, after, gaps",
    "final": "group, lane, partition, offset",
    "checkpoints": "lane, partition, broker, high_watermark, log_end_offset",
    "chains": "lane, partition, leader_epoch, first",
    "starts": "lane, partition, leader_epoch, first, is_elected",
    "elections": "lane, partition, broker, leader_epoch, in_isr, isr",
    "phases": "lane, start_ns, end_ns",
    "reports": "lane, partition, leader_epoch, high_watermark",
    "faults": "lane, fault, kind, requested_ns, proven_ns, healed_ns",
    "transactions": "lane, producer_id, transaction, transactional_id, begin_ns, end_ns, outcome, error, "
    "initialised_ns",
    "assignments": "lane, group, consumer, member, generation, partition, isolation, start_ns, end_ns",
    "commits": "lane, group, consumer, partition, offset, producer_id, transaction, invoke_ns, complete_ns, outcome, "
    "error",
    "sent": "lane, producer_id, transaction, sources, backwards, timed, untimed, refuted, n, first_ns, last_ns",
    "answered": "lane, last_ns",
    "taken": "lane, consumer, partition, last, n, first_ns, last_ns",
    "early": "lane, place, n",
    "ahead": "lane, place, n",
    "blamed": "lane, place, n",
    "fenced": "lane, place, n",
    "numbers": "lane, producer_id, n, first, last",
    "tied": "lane, place, n",
    "uncommitted": "lane, place, n",
    "unread": "lane, place, n",
    "epochs": "lane, partition, broker, leader_epoch, first, last",
    "repeated": "lane, place, n",
    "ends": "lane, partition, last",
    "markers": "lane, partition, producer_id, n, first",
    "written": "lane, partition, producer_id, first, first_epoch, last_epoch",
    "orphans": "lane, place, n",
    "unlike": "lane, place, n",
}
"""The views with their columns.

The first thirteen are those of the documents and tables of these names (`lanes`: what is or is not so is 1 or 0,
`planned`: there is an experiment.yaml, `lossless`: nothing that was committed can get lost, `replicas`: how many a
partition has, `begun_ns`: when its run began; `groups`: the lane that it reads, the one that it belongs to, whether it
commits in transactions, by itself, or after it has read, and whether what it reads has gaps; `final`: groups.json;
`chains`: the leader epochs of checkpoints.json; `phases`, `reports`, `faults` and `elections`: events.jsonl; `starts`:
where leader epochs begin by each broker's checkpoints, and by elections). The others are computed:

`sent`: produced/ by transaction: how many records, how many of them name what they were made of (`sources`), have an
outcome from before they were sent (`backwards`), are acknowledged with and without a time, or are certainly not written
and have an offset (`refuted`), the first and the last time of sending. `answered`: the last time of an outcome.
`taken`: consumed/ by consumer and partition, the last offset, the first and the last time of polling. `early`: records
that were read before they were sent. `ahead`: records that were read with a later leader epoch than every replica has
them with, or, where nothing committed gets lost, with an earlier one. `blamed`: acknowledged records with an error.
`fenced`: replicas with a producer epoch that is missing beside others, falls, or differs between brokers. `numbers`:
how many records a producer has in produced/, the lowest and the highest number. `tied`: a consumer's reads of a
partition at one time. `uncommitted`: records that were read as committed before the last one of their transaction was
sent. `unread`: outputs of loops made of an input that the loop had not read before. `epochs`: the offsets of a
replica's records by leader epoch. `repeated`: replicas that hold an offset twice. `ends`: the last offset in the log or
in a replica. `markers` and `written`: the first marker, and the first record, of a producer in a partition's replicas,
with the lowest and the highest producer epoch. `orphans`: outputs of loops made of an input that nobody had produced
before. `unlike`: partitions whose log no replica holds just so, as far as some broker knows it to be committed.
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """`problem`: what is wrong with a row of the table. `rests`: the anomalies that cannot be judged without it."""

    table: str
    problem: str
    sql: str
    rests: tuple[AnyAnomaly, ...] = ()


def _read() -> Iterator[Relation]:
    content = toml_of(__package__, "relations.toml")
    together: dict[str, Sequence[str]] = {**content["together"], "of_groups": list(GroupAnomaly)}
    for one in content["relations"]:
        rests = [name for entry in one.get("rests", ()) for name in together.get(entry, [entry])]
        sql = one["sql"].strip().format_map(content["places"])
        yield Relation(one["table"], one["problem"], sql, tuple(map(anomaly_named, rests)))


RELATIONS: Sequence[Relation] = tuple(_read())


def asked() -> str:
    """All relations as one query: number of the relation, lane, how many rows, a place."""
    return " UNION ALL ".join(
        f"SELECT {number} AS relation, lane, SUM(n) AS n, MIN(place) AS place "
        f"FROM ({relation.sql}) q{number} GROUP BY lane"
        for number, relation in enumerate(RELATIONS)
    )


def doubt(number: int, n: int, place: str) -> Doubt:
    """That so many rows of a relation do not resolve, one of them at `place`."""
    relation = RELATIONS[number]
    text = f"{relation.table}: {relation.problem}: {counted(n, 'row')}, such as {place}"
    return Doubt(text, relation.rests)

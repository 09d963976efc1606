"""What one table of a run says of another, each relation once: the rows that do not resolve, in SQL.

Guarantee: a relation that holds yields no row. Every engine evaluates the same text, over the views of `VIEWS`, so the
text keeps to what Spark and SQLite both know. A row is (lane, place, n): where one is, and how many there are.

The relations are those of lanes with transactions, a group or a loop; the tables of the other lanes are compared by the
anomalies themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.errors import counted
from kafka_chaos.contract.groups import GroupAnomaly
from kafka_chaos.contract.transactions import AnyAnomaly, TransactionAnomaly
from kafka_chaos.verification.inputs.run_directory import Doubt

VIEWS: Mapping[str, str] = {
    "lanes": "lane, transactional, loop",
    "groups": "group, lane, judged, in_transaction, automatic",
    "final": "group, lane, partition, offset",
    "transactions": "lane, producer_id, transaction, transactional_id, begin_ns, end_ns, outcome, initialised_ns",
    "assignments": "lane, group, consumer, member, generation, partition, isolation, start_ns, end_ns",
    "commits": "lane, group, consumer, partition, offset, producer_id, transaction, invoke_ns, complete_ns, outcome",
    "sent": "lane, producer_id, transaction, sources, backwards, n, first_ns, last_ns",
    "taken": "lane, consumer, partition, n, first_ns, last_ns",
    "ends": "lane, partition, last",
    "markers": "lane, partition, producer_id, n, first",
    "written": "lane, partition, producer_id, first",
    "orphans": "lane, place, n",
    "unlike": "lane, place, n",
}
"""The views with their columns.

The first six are those of the documents and tables of these names (`lanes`: `transactional` and `loop` are 1 or 0;
`groups`: the lane that it reads, the one that it belongs to, whether it commits in transactions, whether its clients
commit by themselves; `final`: groups.json). The others are computed:

`sent`: produced/ by transaction: how many records, how many of them name what they were made of (`sources`), how many
have an outcome from before they were sent (`backwards`), the first and the last time of sending. `taken`: consumed/
by consumer and partition, the first and the last time of polling. `ends`: the last offset in the log or in a replica.
`markers` and `written`: the first marker, and the first record, of a producer in a partition's replicas. `orphans`:
outputs of loops made of an input that nobody produced. `unlike`: partitions whose log no replica holds just so, as
far as every broker knows it to be committed.
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """`problem`: what is wrong with a row of the table. `rests`: the anomalies that cannot be judged without it."""

    table: str
    problem: str
    sql: str
    rests: tuple[AnyAnomaly, ...] = ()


_OF_LOG = (
    TransactionAnomaly.TORN_TRANSACTION,
    TransactionAnomaly.LOST_TRANSACTION,
    TransactionAnomaly.HANGING_TRANSACTION,
    TransactionAnomaly.DEPENDENCY_CYCLE,
)
_OF_READS = (TransactionAnomaly.ABORTED_READ, TransactionAnomaly.TORN_TRANSACTION)
_OF_COMMITS = (GroupAnomaly.COMMIT_LOST, GroupAnomaly.COMMIT_REGRESSED, GroupAnomaly.SKIPPED_AFTER_REBALANCE)
_OF_LOOPS = (GroupAnomaly.PROCESSED_TWICE, GroupAnomaly.NOT_PROCESSED)

_ENDED = "'producer ' || t.producer_id || ', transaction ' || t.`transaction`"
_COMMIT = "'group ' || c.`group` || ', partition ' || c.`partition` || ', offset ' || c.`offset`"
_READ = "'consumer ' || r.consumer || ', partition ' || r.`partition`"

RELATIONS: tuple[Relation, ...] = (
    Relation(
        "transactions",
        "committed, without a time at which it was",
        f"SELECT lane, {_ENDED} AS place, 1 AS n FROM transactions t WHERE outcome = 'committed' AND end_ns IS NULL",
        (TransactionAnomaly.HANGING_TRANSACTION, TransactionAnomaly.ZOMBIE_COMMIT),
    ),
    Relation(
        "transactions",
        "committed, without the time at which its producer was initialised, one of several of its transactional id",
        f"SELECT t.lane, {_ENDED} AS place, 1 AS n FROM transactions t JOIN (SELECT lane, transactional_id FROM "
        "transactions GROUP BY lane, transactional_id HAVING COUNT(DISTINCT producer_id) > 1) m ON m.lane = t.lane AND "
        "m.transactional_id = t.transactional_id WHERE t.outcome = 'committed' AND t.initialised_ns IS NULL",
        (TransactionAnomaly.ZOMBIE_COMMIT,),
    ),
    Relation(
        "transactions",
        "begun before its producer was initialised, or ended before it began",
        f"SELECT lane, {_ENDED} AS place, 1 AS n FROM transactions t "
        "WHERE initialised_ns > begin_ns OR end_ns < begin_ns",
        (TransactionAnomaly.HANGING_TRANSACTION, TransactionAnomaly.ZOMBIE_COMMIT),
    ),
    Relation(
        "transactions",
        "one producer under several transactional ids",
        "SELECT lane, 'producer ' || producer_id AS place, 1 AS n FROM transactions GROUP BY lane, producer_id "
        "HAVING COUNT(DISTINCT transactional_id) > 1",
        (TransactionAnomaly.ZOMBIE_COMMIT, *_OF_LOG),
    ),
    Relation(
        "transactions",
        "of a lane without transactions",
        f"SELECT t.lane, {_ENDED} AS place, 1 AS n FROM transactions t JOIN lanes l ON l.lane = t.lane "
        "WHERE l.transactional = 0",
    ),
    Relation(
        "produced",
        "sent before its transaction began, or after it ended",
        f"SELECT t.lane, {_ENDED} AS place, s.n FROM sent s JOIN transactions t ON t.lane = s.lane AND "
        "t.producer_id = s.producer_id AND t.`transaction` = s.`transaction` "
        "WHERE s.first_ns < t.begin_ns OR s.last_ns > t.end_ns",
        (TransactionAnomaly.ZOMBIE_COMMIT, TransactionAnomaly.HANGING_TRANSACTION),
    ),
    Relation(
        "produced",
        "answered before it was sent",
        "SELECT lane, 'producer ' || producer_id AS place, backwards AS n FROM sent WHERE backwards > 0",
        (TransactionAnomaly.ZOMBIE_COMMIT, TransactionAnomaly.HANGING_TRANSACTION),
    ),
    Relation(
        "produced",
        "in no transaction, though the lane has them",
        "SELECT s.lane, 'producer ' || s.producer_id AS place, s.n FROM sent s JOIN lanes l ON l.lane = s.lane "
        "WHERE l.transactional = 1 AND s.`transaction` IS NULL",
        (*_OF_LOG, *_OF_READS),
    ),
    Relation(
        "produced",
        "in a transaction, though the lane has none",
        "SELECT s.lane, 'producer ' || s.producer_id AS place, s.n FROM sent s JOIN lanes l ON l.lane = s.lane "
        "WHERE l.transactional = 0 AND s.`transaction` IS NOT NULL",
    ),
    Relation(
        "produced",
        "made of an input, though the lane is no loop's",
        "SELECT s.lane, 'producer ' || s.producer_id AS place, s.sources AS n FROM sent s JOIN lanes l "
        "ON l.lane = s.lane WHERE l.loop = 0 AND s.sources > 0",
    ),
    Relation("produced", "made of an input that nobody produced", "SELECT lane, place, n FROM orphans", _OF_LOOPS),
    Relation(
        "replicas",
        "a marker of a producer without a record before it",
        "SELECT m.lane, 'partition ' || m.`partition` || ', offset ' || m.first AS place, m.n FROM markers m "
        "LEFT JOIN written w ON w.lane = m.lane AND w.`partition` = m.`partition` AND w.producer_id = m.producer_id "
        "WHERE m.producer_id >= 0 AND (w.first IS NULL OR w.first > m.first)",
        _OF_LOG,
    ),
    Relation(
        "replicas",
        "a marker of a producer that transactions/ does not name",
        "SELECT m.lane, 'partition ' || m.`partition` || ', offset ' || m.first AS place, m.n FROM markers m LEFT JOIN "
        "(SELECT DISTINCT lane, producer_id FROM transactions) t ON t.lane = m.lane AND t.producer_id = m.producer_id "
        "WHERE m.producer_id >= 0 AND t.producer_id IS NULL",
        _OF_LOG,
    ),
    Relation(
        "replicas",
        "no replica holds just what the log holds",
        "SELECT lane, place, n FROM unlike",
        (*_OF_LOG, *_OF_READS, *_OF_LOOPS, Anomaly.LOST_WRITE),
    ),
    Relation(
        "consumed",
        "read by a consumer that was not assigned the partition",
        f"SELECT r.lane, {_READ} AS place, r.n FROM taken r JOIN (SELECT DISTINCT lane, consumer FROM assignments) k "
        "ON k.lane = r.lane AND k.consumer = r.consumer LEFT JOIN assignments a ON a.lane = r.lane AND "
        "a.consumer = r.consumer AND a.`partition` = r.`partition` WHERE a.consumer IS NULL",
        tuple(GroupAnomaly),
    ),
    Relation(
        "consumed",
        "read by a consumer of the group's lane that assignments/ lacks, beside another one",
        "SELECT lane, 'consumer ' || MAX(consumer) AS place, SUM(n) AS n FROM (SELECT r.lane, r.consumer, "
        "SUM(r.n) AS n FROM taken r JOIN (SELECT DISTINCT lane FROM `groups`) g ON g.lane = r.lane LEFT JOIN "
        "(SELECT DISTINCT lane, consumer FROM assignments) k ON k.lane = r.lane AND k.consumer = r.consumer "
        "WHERE k.consumer IS NULL GROUP BY r.lane, r.consumer) u GROUP BY lane HAVING COUNT(*) > 1",
        tuple(GroupAnomaly),
    ),
    Relation(
        "consumed",
        "read before the consumer was assigned the partition, or after that had ended",
        f"SELECT r.lane, {_READ} AS place, r.n FROM taken r JOIN assignments a ON a.lane = r.lane AND "
        "a.consumer = r.consumer AND a.`partition` = r.`partition` "
        "WHERE r.first_ns < a.start_ns OR r.last_ns > a.end_ns",
        tuple(GroupAnomaly),
    ),
    Relation(
        "assignments",
        "of one consumer to several members, groups, generations or isolation levels",
        "SELECT lane, 'consumer ' || consumer AS place, COUNT(*) AS n FROM assignments GROUP BY lane, consumer HAVING "
        "COUNT(DISTINCT member) > 1 OR COUNT(DISTINCT `group`) > 1 OR COUNT(DISTINCT generation) > 1 OR "
        "COUNT(DISTINCT isolation) > 1",
        (*_OF_READS, *GroupAnomaly),
    ),
    Relation(
        "assignments",
        "of one group with several isolation levels",
        "SELECT lane, 'group ' || `group` AS place, COUNT(*) AS n FROM assignments WHERE `group` IS NOT NULL "
        "GROUP BY lane, `group` HAVING COUNT(DISTINCT isolation) > 1",
        tuple(GroupAnomaly),
    ),
    Relation(
        "assignments",
        "of a group that no lane has",
        "SELECT a.lane, 'group ' || a.`group` AS place, 1 AS n FROM assignments a JOIN (SELECT DISTINCT lane FROM "
        "`groups`) h ON h.lane = a.lane LEFT JOIN `groups` g ON g.`group` = a.`group` AND g.lane = a.lane "
        "WHERE a.`group` IS NOT NULL AND g.lane IS NULL",
        tuple(GroupAnomaly),
    ),
    Relation(
        "commits",
        "acknowledged, without a time at which it was",
        f"SELECT g.judged AS lane, {_COMMIT} AS place, 1 AS n FROM commits c JOIN `groups` g ON g.`group` = c.`group` "
        "WHERE c.outcome = 'ok' AND c.complete_ns IS NULL AND c.`transaction` IS NULL",
        _OF_COMMITS,
    ),
    Relation(
        "commits",
        "past the end of the log",
        f"SELECT g.judged AS lane, {_COMMIT} AS place, 1 AS n FROM commits c JOIN `groups` g ON g.`group` = c.`group` "
        "LEFT JOIN ends e ON e.lane = c.lane AND e.`partition` = c.`partition` "
        "WHERE c.outcome <> 'fail' AND c.`offset` > COALESCE(e.last, -1) + 1",
        _OF_COMMITS,
    ),
    Relation(
        "commits",
        "in a transaction though the group uses none, or in none though it does",
        f"SELECT g.judged AS lane, {_COMMIT} AS place, 1 AS n FROM commits c JOIN `groups` g ON g.`group` = c.`group` "
        "WHERE (g.in_transaction = 1 AND (c.`transaction` IS NULL OR c.producer_id IS NULL)) "
        "OR (g.in_transaction = 0 AND c.`transaction` IS NOT NULL)",
        (*_OF_COMMITS, *_OF_LOOPS),
    ),
    Relation(
        "commits",
        "in a transaction that transactions/ lacks, or not while it was open",
        f"SELECT g.judged AS lane, {_COMMIT} AS place, 1 AS n FROM commits c JOIN `groups` g ON g.`group` = c.`group` "
        "LEFT JOIN transactions t ON t.lane = g.judged AND t.producer_id = c.producer_id AND "
        "t.`transaction` = c.`transaction` WHERE c.`transaction` IS NOT NULL AND "
        "(t.lane IS NULL OR c.invoke_ns < t.begin_ns OR c.invoke_ns > t.end_ns)",
        (*_OF_COMMITS, *_OF_LOOPS),
    ),
    Relation(
        "groups.json",
        "a committed offset that no member committed, or past the end of the log",
        "SELECT g.judged AS lane, 'group ' || f.`group` || ', partition ' || f.`partition` AS place, 1 AS n "
        "FROM `final` f JOIN `groups` g ON g.`group` = f.`group` "
        "LEFT JOIN ends e ON e.lane = f.lane AND e.`partition` = f.`partition` "
        "LEFT JOIN (SELECT DISTINCT `group`, `partition`, `offset` FROM commits WHERE outcome <> 'fail') c "
        "ON c.`group` = f.`group` AND c.`partition` = f.`partition` AND c.`offset` = f.`offset` "
        "WHERE f.`offset` > COALESCE(e.last, -1) + 1 OR (g.automatic = 0 AND c.`group` IS NULL)",
        _OF_COMMITS,
    ),
)


def asked(prefix: str = "") -> str:
    """All relations as one query: number of the relation, lane, how many rows, a place.

    `prefix`: what the names of the views begin with.
    """
    queries = (
        f"SELECT {number} AS relation, lane, SUM(n) AS n, MIN(place) AS place "
        f"FROM ({relation.sql}) q{number} GROUP BY lane"
        for number, relation in enumerate(RELATIONS)
    )
    return re.sub(r"\b(FROM|JOIN) `?(\w+)`?", rf"\1 `{prefix}\2`", " UNION ALL ".join(queries))


def doubt(number: int, n: int, place: str) -> Doubt:
    """That so many rows of a relation do not resolve, one of them at `place`."""
    relation = RELATIONS[number]
    text = f"{relation.table}: {relation.problem}: {counted(n, 'row')}, such as {place}"
    return Doubt(text, relation.rests)

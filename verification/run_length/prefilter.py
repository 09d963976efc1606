"""Finds what runs do not prove clean: words of identities, and links between neighbouring runs.

Guarantee: every case of an anomaly is in a candidate word, or in a partition that a link names.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.run_length.encoding import CHAIN, RUN, WORD
from kafka_chaos.verification.tables.history import INFO, OK, READ, SENT, STORED, UNDECODABLE

_BITS = {
    "sent": f"source = {SENT}",
    "ok": f"source = {SENT} AND outcome = {OK}",
    "open": f"source = {SENT} AND outcome IN ({OK}, {INFO})",
    "placed": f"source = {SENT} AND outcome = {OK} AND partition IS NOT NULL AND shift IS NOT NULL",
    "claimed": f"source = {SENT} AND outcome = {INFO} AND partition IS NOT NULL AND shift IS NOT NULL",
    "stored": f"source = {STORED}",
    "read": f"source = {READ}",
}
_UNKNOWN = f"((stored | read) & ~open) != 0 OR (producer_id = {UNDECODABLE} AND (stored | read) != 0)"
REASONS = {
    "repeated": "n_sent != bit_count(sent)",
    "lost": "(ok & ~stored) != 0",
    "copied": "places != bit_count(stored)",
    "denied": _UNKNOWN,
    "unread": "(stored & ~read) != 0",
    "truncated": "(read & ~stored) != 0",
    "misread": f"read != 0 AND ((read & ~sent) != 0 OR producer_id = {UNDECODABLE})",
    "loose": "loose",
}
"""Possible problems of an identity in a word. Its record was, or may have been:

`repeated`: in produced/ twice; `lost`: `ok`, but not stored; `copied`: stored at several places; `denied`: stored or
read, though a `fail` or never produced; `unread`: stored, but read nowhere; `truncated`: read, but not stored;
`misread`: read, though never produced; `loose`: shown at a place where the log does not have it.
"""


def unclean_words(packed: DataFrame) -> DataFrame:
    """The words of identities that are not clean, or `early`: WORD, a column per possible problem (`REASONS`), whether
    the word is a `candidate`, and whether it was read before the first of it was sent (`early`).

    A word is clean if each identity was produced once, each `ok` is stored, at the place that it names if any, each
    stored record was produced, not as a `fail`, is at one place only, and was read there and nowhere else, and no
    `info` names a place.
    """
    rows = packed.selectExpr(
        *RUN,
        *(f"IF({condition}, bits, 0L) AS {name}" for name, condition in _BITS.items()),
        f"IF(source = {SENT}, n, 0L) AS n_sent",
        "first_ns AS sent_ns",
        f"IF(source = {READ}, start + tick * first, NULL) AS read_ns",
    )
    sums = {"n_sent": "sum(n_sent)", "sent_ns": "min(sent_ns)", "read_ns": "min(read_ns)"}
    counted = [F.expr(f"{text} AS {name}") for name, text in sums.items()]
    places = rows.groupBy(*RUN).agg(*counted, *(F.expr(f"bit_or({name}) AS {name}") for name in _BITS))
    block = places.groupBy(*WORD).agg(
        *counted,
        F.expr("sum(bit_count(stored)) AS places"),
        F.expr("max(read != stored) AS astray"),
        F.expr("max(((placed | claimed | read) & ~stored) != 0) AS loose"),
        *(F.expr(f"bit_or({name}) AS {name}") for name in ("sent", "ok", "open", "claimed", "stored", "read")),
    )
    named = block.selectExpr(
        *WORD,
        *(f"{text} AS {name}" for name, text in REASONS.items()),
        f"astray OR claimed != 0 OR {' OR '.join(f'({text})' for text in REASONS.values())} AS candidate",
        "coalesce(read_ns < sent_ns, false) AS early",
    )
    return named.where("candidate OR early")


def log_links(pieces_of_log: DataFrame) -> DataFrame:
    """Where the log is not one ascending line: lane_key, lane, partition, hole, overlap, descent.

    Neighbouring pieces are compared: `hole`: offsets between them are missing; `overlap`: they share offsets;
    `descent`: one producer's seqs do not ascend from the one to the next.
    """
    place = "PARTITION BY lane_key, partition ORDER BY first, last"
    own = "PARTITION BY lane_key, partition, producer_id ORDER BY first, last"
    links = pieces_of_log.selectExpr(
        "lane_key",
        "lane",
        "partition",
        "first",
        "first_seq",
        f"max(last) OVER ({place} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS previous",
        f"lag(last_seq) OVER ({own}) AS previous_seq",
    ).selectExpr(
        "lane_key",
        "lane",
        "partition",
        "coalesce(first > previous + 1, false) AS hole",
        "coalesce(first <= previous, false) AS overlap",
        "coalesce(first_seq <= previous_seq, false) AS descent",
    )
    return links.where("hole OR overlap OR descent")


def read_links(pieces_of_reads: DataFrame) -> DataFrame:
    """Where a consumer's reads are not one ascending line: lane_key, lane, partition, back, first, last.

    `back`: a piece does not follow the one before it in both offset and poll time; otherwise offsets `first` to `last`
    lie between the two.
    """
    chain = f"PARTITION BY {', '.join(CHAIN)} ORDER BY first_poll, first, last"
    timed = pieces_of_reads.selectExpr(
        "*", "start + tick * first AS first_poll", "start + tick * last AS last_poll"
    ).selectExpr(
        *("lane_key", "lane", "partition", "first", "first_poll"),
        f"lag(last) OVER ({chain}) AS previous",
        f"lag(last_poll) OVER ({chain}) AS previous_poll",
    )
    links = timed.selectExpr(
        *("lane_key", "lane", "partition"),
        "coalesce(first <= previous OR first_poll < previous_poll, false) AS back",
        "previous + 1 AS first",
        "first - 1 AS last",
    )
    return links.where("back OR coalesce(first <= last, false)")


def held_holes(holes: DataFrame, pieces_of_log: DataFrame) -> DataFrame:
    """The lane and partition of holes in reads (`read_links`) in which the log holds an offset."""
    columns = ("lane", "partition", "first", "last")
    events = holes.selectExpr(*columns, "true AS is_hole").union(pieces_of_log.selectExpr(*columns, "false"))
    order = "PARTITION BY lane, partition ORDER BY first, last ROWS BETWEEN"
    marked = events.selectExpr(
        "*",
        f"max(IF(is_hole, NULL, last)) OVER ({order} UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached",
        f"min(IF(is_hole, NULL, first)) OVER ({order} 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_first",
    )
    held = "coalesce(reached >= first, false) OR coalesce(next_first <= last, false)"
    return marked.where(f"is_hole AND ({held})").select("lane", "partition").distinct()

"""The yardstick for verification speed: the anomalies that need the client histories and the final log, in DuckDB.

usage: verify_duckdb.py RUN_DIR [--threads 2]; prints one JSON object: seconds, and the counts per lane.
Written as anyone would write it in SQL: one straightforward query per anomaly.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import duckdb

WHO = "lane, producer_id, seq"
PLACE = 'partition, "offset"'

QUERIES = {
    "lost_write": f"select lane, count(*) from produced anti join log using ({WHO}) where outcome = 'ok' group by lane",
    "duplicate": f"""
        select lane, count(*) from (select {WHO} from log group by all having count(*) > 1) group by lane""",
    "false_failure": f"""
        select lane, count(*) from produced semi join log using ({WHO}) where outcome = 'fail' group by lane""",
    "phantom": f"""
        with held as (select {WHO}, {PLACE} from log union all select {WHO}, {PLACE} from consumed),
        unknown as (select distinct lane, {PLACE} from held anti join produced using ({WHO}))
        select lane, count(*) from unknown group by lane""",
    "inconsistent_offset": f"""
        with held as (
            select lane, {PLACE}, (producer_id, seq) as who from log
            union all select lane, {PLACE}, (producer_id, seq) from consumed
            union all select lane, {PLACE}, (producer_id, seq) from produced
            where outcome = 'ok' and "offset" is not null),
        shared as (select lane, {PLACE} from held group by all having min(who) <> max(who))
        select lane, count(*) from shared group by lane""",
    "offset_mismatch": f"""
        select lane, count(*) from (
            select {", ".join("p." + name for name in WHO.split(", "))}
            from produced p join log l using ({WHO}) where p.outcome = 'ok' and p."offset" is not null
            group by all having not bool_or(l.partition = p.partition and l."offset" = p."offset")) group by lane""",
    "truncated_read": f"""
        select lane, count(distinct (producer_id, seq))
        from consumed anti join log using ({WHO}) semi join produced using ({WHO}) group by lane""",
    "unseen": f"""
        select lane, count(distinct (producer_id, seq)) from log anti join consumed using ({WHO}) group by lane""",
    "reordered": f"""
        with firsts as (select {WHO}, partition, min("offset") as place from log group by all),
        steps as (select lane, seq < lag(seq) over (partition by lane, producer_id, partition order by place) as back
                  from firsts)
        select lane, count(*) from steps where back group by lane""",
    "nonmonotonic_poll": """
        with steps as (select lane, "offset" <= lag("offset") over
                           (partition by lane, consumer, partition order by poll_ns) as back from consumed)
        select lane, count(*) from steps where back group by lane""",
    "offset_gap": """
        with spans as (select lane, max("offset") - min("offset") + 1 - count(*) as missing
                       from log group by lane, partition)
        select lane, sum(missing)::bigint from spans where missing > 0 group by lane""",
}


def measure(run_dir: Path, threads: int) -> dict[str, object]:
    """Seconds for all queries on `run_dir` and what each counted."""
    database = duckdb.connect()
    database.execute(f"set threads={threads}")
    started = time.perf_counter()
    for table in ("produced", "consumed", "log"):
        database.execute(f"create view {table} as select * from read_parquet('{run_dir}/{table}/*.parquet')")
    counts = {name: dict(database.execute(query).fetchall()) for name, query in QUERIES.items()}
    return {"seconds": round(time.perf_counter() - started, 3), "threads": threads, "counts": counts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.run_dir, arguments.threads)))

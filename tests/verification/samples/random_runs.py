"""Run directories of random histories, those of a family together: each history is a lane, or three with groups."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from kafka_chaos.contract.lane.groups import group_of, loop_group_of
from kafka_chaos.contract.lane.share import share_group_of
from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples.planted_groups import SOURCES
from tests.verification.samples.planted_shares import lane_keys
from tests.verification.samples.random_groups import random_groups
from tests.verification.samples.random_histories import YOUNG_NS, compacted, random_history, random_unplaced_history
from tests.verification.samples.random_shares import random_shares
from tests.verification.samples.random_transactions import random_transactions
from tests.verification.samples.run_dirs import as_planned, write_histories

WriteRun = Callable[[Path, Random, int], Path]
"""Writes a run directory with so many random histories."""


def _lanes(draw: Callable[[Random], LaneHistory], *, log: bool = True, planned: bool = False, **keys: Any) -> WriteRun:
    """Of lanes that `draw` makes, with these keys of lanes.json; `planned`: it is known when the log was read."""

    def write(folder: Path, random: Random, count: int) -> Path:
        histories = {f"lane-{number}": draw(random) for number in range(count)}
        for history in histories.values() if not log else ():
            history.log, history.replicas = None, []
        run = write_histories(folder, histories, dict.fromkeys(histories, keys))
        return as_planned(run, YOUNG_NS) if planned else run

    return write


def _groups(folder: Path, random: Random, count: int) -> Path:
    """Of runs with loops, whose lanes and groups have the number of the run in their names. kafka-chaos made them."""
    lanes: dict[str, LaneHistory] = {}
    clients: dict[str, Mapping[str, Any]] = {}
    final: dict[str, dict[str, int]] = {}
    for number in range(count):
        run = random_groups(random, steps=60)
        names_of = {"reset": ["earliest", "latest"], "commits": ["after", "auto"], "protocol": ["classic", "consumer"]}
        group = {"members": 2, **{key: random.choice(values) for key, values in names_of.items()}}
        run.keys["in"] = {"kafka_version": "4.1.0", "group": group, **random.choice([{}, {}, COMPACTED])}
        names = {group_of(lane): group_of(f"{lane}-{number}") for lane in run.lanes}
        names |= {loop_group_of(lane): loop_group_of(f"{lane}-{number}") for lane in SOURCES}
        for lane, history in run.lanes.items():
            history.assignments = [row._replace(group=row.group and names[row.group]) for row in history.assignments]
            history.commits = [row._replace(group=names[row.group]) for row in history.commits]
            lanes[f"{lane}-{number}"] = history
        for lane, keys in run.clients.items():
            of_lane: dict[str, Any] = dict(keys)
            if "loop" in keys:
                of_lane["loop"] = {**of_lane["loop"], "source": f"{SOURCES[lane]}-{number}"}
            clients[f"{lane}-{number}"] = of_lane
        for group, offsets in run.committed.items():
            final[names[group]] = {place.replace("/", f"-{number}/"): offset for place, offset in offsets.items()}
    return as_planned(write_histories(folder, lanes, clients, final), YOUNG_NS)


def _shares(folder: Path, random: Random, count: int) -> Path:
    histories = {f"lane-{number}": random_shares(random) for number in range(count)}
    keys = {}
    for name, history in histories.items():
        group = share_group_of(name)
        history.deliveries = [row._replace(group=group) for row in history.deliveries]
        history.share_starts = [row._replace(group=group) for row in history.share_starts]
        history.dead_letters = [row._replace(source_group=row.source_group and group) for row in history.dead_letters]
        isolation = {"isolation": "read_committed"} if history.is_share_committed else {}
        keys[name] = lane_keys(**isolation, crashes=random.choice([0, 0, 1, 2]))
    return write_histories(folder, histories, keys)


COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "idempotence": True, "delete_retention_ms": 0}
FAMILIES: dict[str, WriteRun] = {
    "plain": _lanes(lambda random: random_history(random, final_log=True)),
    "compacted": _lanes(lambda of: compacted(of, random_history(of, final_log=True)), planned=True, **COMPACTED),
    "compacted transactions": _lanes(lambda of: compacted(of, random_transactions(of)), **COMPACTED),
    "plain, without a log": _lanes(lambda random: random_history(random, final_log=False)),
    "acks=0": _lanes(random_unplaced_history, acks="0"),
    "transactions": _lanes(random_transactions),
    "transactions, without a log": _lanes(random_transactions, log=False),
    "groups": _groups,
    "shares": _shares,
}

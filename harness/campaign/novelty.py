"""A run's observations as texts that can be compared with those of earlier runs: actions of the model, states of
partitions, outcomes of records, and lines of clients' and brokers' logs, each without what changes from run to run.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.contract.events import IsrChanged
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.report.inputs.actions import actions_of, lanes_and_events, outcomes_of

_UNTOLD = re.compile(r"\s|\[[^]]*\] (?:TRACE|DEBUG) ")
"""How a line begins that goes on with the line before it, or is of no level that says what happened."""
_VARYING = re.compile(r"[\w.:/@$+-]*\d[\w.:/@$+-]*")
_LISTED = re.compile(r"#(?:[\s,]+#)+")
_LONGEST = 120


def novelty_of(run_dir: Path) -> set[str]:
    """Everything that a run showed; nothing for a run whose documents can't be used."""
    lanes, events = lanes_and_events(run_dir)
    if not lanes:
        return set()
    clients = {lane.lane: f"{lane.client or IN_PROCESS}, {lane.lane}" for lane in lanes}
    observations = {f"{clients[lane]}: {action}" for lane, counts in actions_of(run_dir).items() for action in counts}
    for lane, outcome, error, _ in outcomes_of(run_dir):
        observations.add(f"{clients.get(lane, lane)}: {outcome} {normalised(str(error))}")
    for (lane, _), changes in events.changes.items():
        for change in changes:
            what = f"ISR of {len(change.isr)}" if isinstance(change, IsrChanged) else "a new leader"
            begun = [
                fault for fault in events.concerning(lane) if fault.requested and fault.requested[0] <= change.ts_ns
            ]
            ongoing = sorted({fault.kind for fault in begun if not fault.healed or change.ts_ns <= fault.healed[-1]})
            observations.add(f"{what} during {' and '.join(ongoing) or 'no fault'}")
    for name, lines in lines_of(run_dir).items():
        observations |= {f"{name.partition('-')[0]}: {line}" for line in lines}
    return observations


def lines_of(run_dir: Path) -> Mapping[str, Mapping[str, str]]:
    """By the name of each log, its lines: as they are without what varies, with the first that is so."""
    by_log: dict[str, dict[str, str]] = {}
    for path in sorted((run_dir / "logs").glob("*.log")):
        lines = by_log.setdefault(path.stem, {})
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not _UNTOLD.match(line):
                    lines.setdefault(normalised(line.rstrip()), line.rstrip())
    return by_log


def normalised(line: str) -> str:
    """The beginning of a line, with numbers, ids, addresses and names that have digits as `#`."""
    return _LISTED.sub("#", _VARYING.sub("#", line))[:_LONGEST]

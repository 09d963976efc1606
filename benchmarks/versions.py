"""Every supported version of Kafka in each of its modes: does it start, serve and conform?

    .venv/bin/python benchmarks/versions.py [--only VERSION ...]
    .venv/bin/python benchmarks/versions.py --keys

Starts three brokers of each version in each mode, and runs one experiment on them: 24 lanes, while their leader is
killed and comes back. Writes the results to docs/versions.json and the table of docs/versions.md; with --only,
what is there of other versions stays. Exits with 1 if a run does not conform.

--keys writes harness/cluster/configuration/keys.json anew, from what each version's own classes list.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from tables import MODES, measure, write_rows, write_table

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.events import ClusterReady, Event
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.versions import VERSIONS, KafkaVersion
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "versions.json"
PAGE = ROOT / "docs" / "versions.md"
KEYS = ROOT / "harness" / "cluster" / "configuration" / "keys.json"
BEGIN, END = "<!-- table: benchmarks/versions.py -->\n", "<!-- end of table -->\n"

CONFIG_CLASSES = {
    "broker": ("kafka.server.KafkaConfig",),
    "topic": ("org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"),
}
# As the classes list keys as HTML: since 2.5, in 2.1 to 2.4, and before.
LISTED_KEY = re.compile(r'(?:<h4><a id="|<li><b>|<tr>\s*<td>)([a-z][\w.]*)')


FEW_REQUESTS = {"producer_configs": {"linger.ms": 50}}
"""24 producers of a request every 5 ms would keep two cores from everything else, heartbeats included."""
TRANSACTIONS = {"size": 10, "abort": 0.1, "timeout_ms": 10_000}


def lanes_of(version: KafkaVersion) -> list[dict[str, Any]]:
    """The 24 lanes as an experiment file has them: four producers on each of six topics.

    Where a version has no idempotence, there is a producer with one request in flight instead, and there are topics
    without replicas instead of transactions.
    """
    producers: dict[str, dict[str, Any]] = {
        "acks0": {"acks": "0"},
        "acks1": {"acks": "1"},
        "all": {"acks": "all"},
        "all-idempotent": {"acks": "all", "idempotence": True},
    }
    topics = {
        f"min{minimum}{'-unclean' * unclean}": {"min_insync_replicas": minimum, "unclean_leader_election": unclean}
        for minimum, unclean in product((1, 2), (False, True))
    }
    topics["two-replicas"] = {"replication_factor": 2, "min_insync_replicas": 2}
    if not version.has_idempotence:
        producers["all-one-in-flight"] = {**producers.pop("all-idempotent"), "idempotence": False, "max_in_flight": 1}
        topics["alone"] = {"replication_factor": 1}
    lanes = [
        {"lane": f"{producer}-{topic}", "leader": 1, **FEW_REQUESTS, **settings, **configs}
        for (producer, settings), (topic, configs) in product(producers.items(), topics.items())
    ]
    if version.has_idempotence:
        several = {"partitions": 3, "leader": 1, "transactional": TRANSACTIONS, **FEW_REQUESTS}
        lanes += [
            {"lane": "transactions-min1", **several},
            {"lane": "transactions-min2", "min_insync_replicas": 2, **several},
            {"lane": "transactions-two-replicas", **topics["two-replicas"], **several},
            {"lane": "transactions-one-partition", "min_insync_replicas": 2, **several, "partitions": 1},
        ]
    return lanes


def experiment(version: KafkaVersion, mode: str) -> dict[str, Any]:
    """The experiment as its file would have it."""
    return {
        "name": f"kafka-{version.number}-{mode}",
        "cluster": {"kafka_version": version.number, "metadata_mode": mode},
        "workload": {"rate": 200, "duration": 9},
        "lanes": lanes_of(version),
        "schedule": [{"fault": "kill", "target": "leader(acks1-min1)", "at": 2, "duration": 4}],
    }


def try_version(version: KafkaVersion, mode: str, root: Path) -> dict[str, Any]:
    """One run: when its cluster was ready, and its verdict."""
    row: dict[str, Any] = {"version": version.number, "mode": mode, "date": time.strftime("%Y-%m-%d")}
    image = docker_client().images.get(ensure_image(version.number, say=print))
    row["image_mb"] = round(image.attrs["Size"] / 1e6)

    def listen(event: Event) -> None:
        if isinstance(event, ClusterReady):
            row["ready_seconds"] = round(event.seconds, 1)

    try:
        result = run_experiment(experiment_of(experiment(version, mode), "benchmark"), root=root, listeners=[listen])
    except KafkaChaosError as error:
        return row | {"verdict": str(Verdict.UNKNOWN), "reason": str(error).partition("\n")[0]}
    lanes = result.verdict.lanes
    row["verdict"] = str(result.verdict.verdict)
    row["lanes"] = len(lanes)
    row["acknowledged"] = sum(lane.acknowledged for lane in lanes)
    row["lost"] = sum(lane.observed[Anomaly.LOST_WRITE].count for lane in lanes if Anomaly.LOST_WRITE in lane.observed)
    row["not_judged"] = sorted({str(anomaly) for lane in lanes for anomaly in lane.not_judged})
    row["reasons"] = [f"{lane.lane}: {reason}" for lane in lanes for reason in lane.reasons]
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in Markdown, the newest version first."""
    lines = ["| Kafka | mode | image | ready | lanes | acknowledged | verdict | not judged |", "| --- " * 8 + "|"]
    for row in sorted(rows, key=lambda row: (list(VERSIONS).index(row["version"]), row["mode"])):
        ready = f"{row['ready_seconds']:.1f} s" if "ready_seconds" in row else "never"
        not_judged = ", ".join(f"`{name}`" for name in row.get("not_judged", ())) or "–"
        where = f"{row['version']} | {MODES[row['mode']]} | {row['image_mb']} MB"
        lanes, acknowledged = row.get("lanes", 0), row.get("acknowledged", 0)
        lines.append(f"| {where} | {ready} | {lanes} | {acknowledged:,} | {row['verdict']} | {not_judged} |")
    return "\n".join(lines) + "\n"


def write(rows: list[dict[str, Any]]) -> None:
    """Write the results, and replace the table of docs/versions.md."""
    write_rows(rows, RESULTS)
    write_table(PAGE, BEGIN, table(rows), END)


def listed_keys(version: str, kind: str) -> frozenset[str]:
    """The configuration keys that a version's own classes list."""
    from docker.errors import ContainerError

    for name in CONFIG_CLASSES[kind]:
        try:
            listing = docker_client().containers.run(
                ensure_image(version, say=print), ["-cp", "/opt/kafka/jars/*", name], entrypoint="java", remove=True
            )
        except ContainerError:
            continue
        if keys := frozenset(LISTED_KEY.findall(listing.decode())):
            return keys
    raise SystemExit(f"Kafka {version} lists no {kind} keys")


def spans(listed: Mapping[str, frozenset[str]]) -> dict[str, list[str | None]]:
    """By key the first and the last version that list it, None for the newest.

    `listed`: by version, the oldest first. Of a key that vanished in between, only the later versions count.
    """
    found: dict[str, list[str | None]] = {}
    for key in sorted(frozenset().union(*listed.values())):
        last = [version for version in listed if key in listed[version]][-1]
        first = last
        for newer, older in pairwise(list(reversed(listed))):
            if newer == first and key in listed[older]:
                first = older
        found[key] = [first, None if last == list(listed)[-1] else last]
    return found


def write_keys() -> None:
    """Write harness/cluster/configuration/keys.json."""
    lines = []
    for kind in CONFIG_CLASSES:
        keys = spans({version: listed_keys(version, kind) for version in reversed(VERSIONS)})
        entries = ",\n".join(f"  {json.dumps(key)}: {json.dumps(span)}" for key, span in keys.items())
        lines.append(f' "{kind}": {{\n{entries}\n }}')
    KEYS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=VERSIONS, default=list(VERSIONS), metavar="VERSION")
    parser.add_argument("--keys", action="store_true")
    chosen = parser.parse_args()
    if chosen.keys:
        write_keys()
    else:
        wanted = (VERSIONS[number] for number in chosen.only)
        runs = (partial(try_version, version, mode) for version in wanted for mode in version.modes)
        measure(runs, results=RESULTS, identified_by=("version", "mode"), write=write)


if __name__ == "__main__":
    main()

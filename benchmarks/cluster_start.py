"""How long clusters take to be ready and to be removed, with existing images.

With ZooKeeper: one of them and three brokers. In KRaft mode: three brokers that are controllers too, and three brokers
with three controllers.

    .venv/bin/python benchmarks/cluster_start.py [ROUNDS]

The last line is JSON: medians in seconds, with ZooKeeper unless the name says otherwise. With ZooKeeper, starts without
class-data sharing are measured too, in alternation, to show what it saves.
"""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import time
from unittest import mock

from kafka_chaos.harness.cluster.building import JVM_OPTIONS
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.containers.image import ensure_image

WITH_ZOOKEEPER = ClusterLayout()
IN_KRAFT = {
    f"{name}_{version}": ClusterLayout(metadata_mode="kraft", kafka_version=version, controllers=controllers)
    for version in ("3.9.1", "4.3.1")
    for name, controllers in (("combined", 0), ("controllers", 3))
}


def start_and_stop(layout: ClusterLayout = WITH_ZOOKEEPER) -> tuple[float, float]:
    started = time.monotonic()
    with Cluster(layout, run_id=f"bench-{secrets.token_hex(4)}"):
        ready = time.monotonic()
    return ready - started, time.monotonic() - ready


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for layout in (WITH_ZOOKEEPER, *IN_KRAFT.values()):
        ensure_image(layout.kafka_version, say=print)
    start_and_stop()
    shared, unshared = [], []
    for number in range(rounds):
        shared.append(start_and_stop())
        # -Xshare:off after the image's own options overrides them.
        with mock.patch.dict(JVM_OPTIONS, dict.fromkeys(JVM_OPTIONS, ("-Xshare:off",))):
            unshared.append(start_and_stop())
        print(f"round {number + 1}: ready {shared[-1][0]:.2f} s, removed {shared[-1][1]:.2f} s; "
              f"without class-data sharing ready {unshared[-1][0]:.2f} s", flush=True)  # fmt: skip
    in_kraft = {}
    for name, layout in IN_KRAFT.items():
        start_and_stop(layout)
        in_kraft[f"kraft_{name}_ready_seconds"] = round(
            statistics.median(start_and_stop(layout)[0] for _ in range(rounds)), 2
        )
        print(f"KRaft, {name}: ready {in_kraft[f'kraft_{name}_ready_seconds']:.2f} s", flush=True)
    print(
        json.dumps(
            {
                "ready_seconds": round(statistics.median(ready for ready, _ in shared), 2),
                "removed_seconds": round(statistics.median(removed for _, removed in shared), 2),
                "ready_seconds_without_class_data_sharing": round(statistics.median(r for r, _ in unshared), 2),
                **in_kraft,
                "rounds": rounds,
            }
        )
    )


if __name__ == "__main__":
    main()

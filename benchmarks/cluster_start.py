"""How long a ZooKeeper and three brokers take to be ready and to be removed, with an existing image.

    .venv/bin/python benchmarks/cluster_start.py [ROUNDS]

The last line is JSON: medians in seconds. Rounds without class-data sharing (its archive renamed in the container)
alternate with these, to show what it saves.
"""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import time
from unittest import mock

from kafka_chaos.harness.cluster import cluster as cluster_module
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.containers.image import ensure_image


def start_and_stop() -> tuple[float, float]:
    started = time.monotonic()
    with Cluster(ClusterLayout(), run_id=f"bench-{secrets.token_hex(4)}"):
        ready = time.monotonic()
    return ready - started, time.monotonic() - ready


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ensure_image(say=print)
    start_and_stop()
    shared, unshared = [], []
    for number in range(rounds):
        shared.append(start_and_stop())
        # -Xshare:off after the image's own options overrides them.
        with (
            mock.patch.object(cluster_module, "BROKER_OPTIONS", ("-Xshare:off",)),
            mock.patch.object(cluster_module, "ZOOKEEPER_OPTIONS", ("-Xshare:off",)),
        ):
            unshared.append(start_and_stop())
        print(f"round {number + 1}: ready {shared[-1][0]:.2f} s, removed {shared[-1][1]:.2f} s; "
              f"without class-data sharing ready {unshared[-1][0]:.2f} s", flush=True)  # fmt: skip
    print(
        json.dumps(
            {
                "ready_seconds": round(statistics.median(ready for ready, _ in shared), 2),
                "removed_seconds": round(statistics.median(removed for _, removed in shared), 2),
                "ready_seconds_without_class_data_sharing": round(statistics.median(r for r, _ in unshared), 2),
                "rounds": rounds,
            }
        )
    )


if __name__ == "__main__":
    main()

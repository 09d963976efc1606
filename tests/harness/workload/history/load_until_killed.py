"""A process under load that reports its counts on standard output until it is killed: SERVERS, DIRECTORY, lanes."""

import json
import sys
import time
from pathlib import Path

from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.load import PhaseLoad


def main(servers: str, folder: str, *lanes: str) -> None:
    specs = [
        LaneSpec(lane=name, acks=("1", "all")[index % 2], idempotence=bool(index % 2), partitions=1 + index % 2)
        for index, name in enumerate(lanes)
    ]
    load = PhaseLoad(
        specs,
        bootstrap_servers=servers,
        workload=WorkloadSpec(rate=1_500),
        run_directory=Path(folder),
        on_notice=lambda text: None,
    )
    with load:
        load.await_first_acknowledgements(timeout=60)
        while True:
            counts = load.counts
            print(json.dumps([time.monotonic_ns(), counts]), flush=True)
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])

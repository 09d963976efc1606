"""How fast the reference model is: states per second and totals, of the core, the cluster and the lane.

    python benchmarks/model_explore.py [core] [cluster] [predict]

Targets, on one core: the core at 20,000 states/s, the cluster at 5,000, the core's scope of 3 brokers, 2 records and
3 leader epochs exhausted for kip320 in a minute and for all variants in 10 minutes together, any lane of the acks
matrix with the minimum ISRs and faults of experiments/ predicted in 5 s, and with three faults in 60 s. Exits with 1 if
one is missed.
All times are processor time, so a busy machine does not matter.
"""

from __future__ import annotations

import itertools
import sys
import time

from cluster_search import search_cluster

from kafka_chaos.reference_model import Lane, predict
from kafka_chaos.reference_model.compare import FAULT_SETS
from kafka_chaos.reference_model.explore.core import CoreScope
from kafka_chaos.reference_model.explore.exploration import explore
from kafka_chaos.reference_model.lockstep.state import ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import step
from kafka_chaos.reference_model.protocol import PROTOCOLS

MIXES = (
    ("stop", "stop"),
    ("pause", "pause"),
    ("partition", "partition"),
    ("pause", "kill"),
    ("partition", "kill"),
    ("kill", "stop"),
    ("pause", "stop"),
    ("partition", "stop"),
    ("partition", "pause"),
    ("kill", "power-loss"),
    ("partition", "kill", "kill"),
    ("pause", "kill", "kill"),
    ("partition", "kill", "power-loss"),
)
"""The mixes of faults that experiments come to, those of the recipes, and the slowest known."""
FAULTS = (*FAULT_SETS, *MIXES)
"""None, each kind alone, and the mixes."""


def measure_core() -> bool:
    seconds = cpu_seconds = newest = 0.0
    slowest = float("inf")
    for name, protocol in PROTOCOLS.items():
        found = explore(protocol, CoreScope(brokers=3, records=2, leader_epochs=3))
        rate = found.states / found.cpu_seconds
        print(f"core {name}: {found.states} states, {found.transitions} transitions, ", end="")
        print(f"{found.seconds:.1f} s ({found.cpu_seconds:.1f} s processor), {rate:.0f} states/s", flush=True)
        seconds += found.seconds
        cpu_seconds += found.cpu_seconds
        slowest = min(slowest, rate)
        if name == "kip320":
            newest = found.cpu_seconds
    print(f"core, all variants: {seconds:.1f} s ({cpu_seconds:.1f} s processor), slowest {slowest:.0f} states/s")
    return newest <= 60 and cpu_seconds <= 600 and slowest >= 20_000


def measure_cluster() -> bool:
    load = [step("produce", record=f"m{number}") for number in range(2)]
    environment = [
        [step("kill", broker=1), step("start", broker=1)],
        [
            step("cut", channel="replication", source=3, target=2),
            step("expire_lag"),
            step("heal", channel="replication", source=3, target=2),
        ],
    ]
    found = search_cluster(ClusterConfig(controller=2), [load, *environment], max_states=100_000)
    rate = found.states / found.cpu_seconds
    print(f"cluster: {found.states} states, {found.cpu_seconds:.1f} s, {rate:.0f} states/s")
    return rate >= 5_000


def measure_predict() -> bool:
    matrix = itertools.product(
        (("0", False), ("1", False), ("all", False), ("all", True)), (1, 2, 3), (False, True), (1, 5)
    )
    took: list[tuple[float, str]] = []
    usual = three = 0.0
    for (acks, idempotence), minimum, unclean, in_flight in matrix:
        for faults in FAULTS:
            lane = Lane(
                lane="measured",
                acks=acks,
                idempotence=idempotence,
                min_insync_replicas=minimum,
                unclean_leader_election=unclean,
                max_in_flight=in_flight,
                faults=faults,
            )
            started = time.process_time()
            states = predict(lane).states
            seconds = time.process_time() - started
            if len(faults) > 2:
                three = max(three, seconds)
            elif minimum < 3:
                usual = max(usual, seconds)
            named = f"acks {acks}{' idempotent' * idempotence}, minimum {minimum}{', unclean' * unclean}"
            took.append((seconds, f"{named}, in flight {in_flight}, {' + '.join(faults)}: {states} states"))
    took.sort(reverse=True)
    for seconds, what in took[:10]:
        print(f"predict {what}, {seconds:.2f} s")
    together, long = sum(seconds for seconds, _ in took), sum(seconds >= 1 for seconds, _ in took)
    print(f"predict, {len(took)} lanes: {together:.0f} s, {long} of 1 s and more", flush=True)
    print(f"predict, slowest: {usual:.2f} s as in experiments/, {three:.2f} s with three faults")
    return usual < 5 and three < 60


MEASUREMENTS = {"core": measure_core, "cluster": measure_cluster, "predict": measure_predict}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(MEASUREMENTS)
    results = [MEASUREMENTS[name]() for name in chosen]
    sys.exit(0 if all(results) else 1)

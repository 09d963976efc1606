"""How runs of eight kinds of clients end while they leave the processors to brokers, and while they do not, in turn.

    .venv/bin/python benchmarks/yielding.py [--rounds 3]

Runs experiments/clients.yaml on Kafka 3.9.1 in ZooKeeper mode. Each line is JSON: the nice value of clients, how the
run ended (its verdict, known defects accepted, or what failed), and how many seconds it took. Exits with 1 if one of
the runs whose clients yield did not conform.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from ruamel.yaml import YAML

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness import signals
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "clients.yaml"
CLUSTER = {"brokers": 3, "kafka_version": "3.9.1", "metadata_mode": "zookeeper"}


def ended(nice: int) -> dict[str, object]:
    """How one run ends whose clients have this nice value."""
    signals.CLIENT_NICE = nice
    experiment = experiment_of({**YAML(typ="safe").load(EXPERIMENT), "cluster": CLUSTER}, EXPERIMENT.name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = run_experiment(
                experiment, root=Path(folder), accept_known=MODELLED_DEFECTS, engine=Engine.DUCKDB, report=False
            )
            how = str(run.verdict.outcome)
        except KafkaChaosError as error:
            how = str(error).partition("\n")[0]
    return {"nice": nice, "ended": how, "seconds": round(time.monotonic() - began)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    told = []
    for nice in [0, signals.CLIENT_NICE] * parser.parse_args().rounds:
        told.append(ended(nice))
        print(json.dumps(told[-1]), flush=True)
    sys.exit(any(one["nice"] and one["ended"] != "conforms" for one in told))


if __name__ == "__main__":
    main()

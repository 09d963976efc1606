"""Runs of planted.yaml, with the bug in some of its lanes."""

from pathlib import Path

from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.verification.judging.result import RunVerdict
from tests.harness.run.planted.plant import Planting

EXPERIMENT = Path(__file__).with_name("planted.yaml")
PLANTED = ("cut-all", "cut-all-min2", "cut-acks1", "follower-all")
SOUND = ("sound-all", "zombie-acks1", "sound-unclean")
RECORDS = 20
"""That a replica drops."""
AT_ELECTION = f"cut-all,cut-all-min2,cut-acks1;{RECORDS};elected"
AFTER_TRUNCATION = f"follower-all;{RECORDS};truncated"
AGENTS = {"cut": {2: AT_ELECTION, 3: AT_ELECTION}, "follower": {1: AFTER_TRUNCATION}}


def planted_run(out: Path) -> RunVerdict:
    """The verdict on one run of planted.yaml, below `out`."""
    experiment = load_experiment(EXPERIMENT)
    return run_experiment(experiment, root=out, listeners=[Planting(AGENTS)], engine=Engine.DUCKDB).verdict

"""The experiments of known defects, on brokers: what each shows, and that the verdict names and accepts just that."""

from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.cli.known_command import KNOWN_FOLDER, compare_sides, known_defects
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import require_available, run_experiment
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

MINUTES = 4
CERTAIN = [id for id, (_, head) in known_defects().items() if head.shown == head.runs and head.minutes <= MINUTES]
IN_MODEL = {id.lower(): id for id in MODELLED_DEFECTS}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("id", CERTAIN)
def test_a_defect_that_every_run_has_shown_is_shown_and_named(tmp_path: Path, id: str) -> None:
    results: list[RunResult] = []

    def run(experiment: Experiment) -> RunResult:
        try:
            require_available(experiment)
        except EnvironmentFailure as failure:
            pytest.skip(str(failure))
        results.append(run_experiment(experiment, root=tmp_path, engine=Engine.DUCKDB))
        return results[-1]

    shown = compare_sides(KNOWN_FOLDER / f"{id}.yaml", run)
    assert shown.exit_code == 0, shown.lines
    named = {defect for lane in shown.affected.lanes for defect in lane.known_defects}
    if id in IN_MODEL and shown.affected.verdict is Verdict.VIOLATION:
        assert IN_MODEL[id] in named
        assert results[0].verdict.accepting(named).outcome is Verdict.CONFORMS

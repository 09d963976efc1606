"""Nobody's session gets a warning of ours, and one that turns warnings into errors works."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verification.samples.run_dirs import rows_of

ROOT = Path(__file__).parents[2]

IMPORT_EVERYTHING = """
import importlib, pkgutil, warnings
before = list(warnings.filters)
import kafka_chaos
names = [module.name for module in pkgutil.walk_packages(kafka_chaos.__path__, "kafka_chaos.")]
for name in names:
    if not name.startswith("kafka_chaos.docker"):
        importlib.import_module(name)
assert "kafka" in __import__("sys").modules
added = [entry for entry in warnings.filters if entry not in before]
assert not [entry for entry in added if "read_text" in str(entry)], added
print(len(names))
"""


@pytest.mark.slow
def test_every_module_can_be_imported_where_warnings_are_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_EVERYTHING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.spark
@pytest.mark.slow
def test_verifying_and_reporting_give_no_warning(tmp_path: Path) -> None:
    """PySpark leaves sockets to be closed by Python: a warning each, unraisable where warnings are errors."""
    rows = rows_of(20)
    script = """
import gc, sys, warnings
from pathlib import Path
from kafka_chaos.harness.report import write_report
from kafka_chaos.verification import spark_session, verify
spark = spark_session()
raised = []
sys.unraisablehook = raised.append
before = list(warnings.filters)
run = Path(sys.argv[1])
verify(run, spark=spark)
write_report(run)
gc.collect()
assert warnings.filters == before
assert not raised, raised
"""
    command = [sys.executable, "-W", "error", "-c", script, str(rows.write(tmp_path / "run"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""The shards of the night: which of them runs the slow tests of which modules, and which cases are left to them.

Guarantee: every test module belongs to exactly one shard; the longest path that it begins with decides. Each shard ends
within an hour on two cores (`benchmarks/test_times.py --shard NAME` measures it).
"""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

SHARDS = {
    "model": ("tests/reference_model", "tests/contract"),
    "verification": ("tests/verification",),
    "faults": ("tests/faults",),
    "cluster": ("tests/harness/cluster", "tests/harness/attached"),
    "runs": ("tests/harness/run", "tests/harness/workload", "tests/test_end_to_end.py"),
    "shapes": ("tests/test_shapes_on_cluster.py",),
    "clients": ("tests/harness/workload/processes", "tests/conformance/clients"),
    "conformance": ("tests/conformance", "tests/test_scenarios.py"),
    "matrix": ("tests/test_acks_matrix.py", "tests/test_version_differences.py"),
    "known": ("tests/test_known.py",),
    "users": ("tests/harness", "tests/plugin", "tests/project", "tests/test_docs.py", "tests/test_packaging.py"),
}
"""The beginnings of paths by shard."""


def a_third_by_day(values: Iterable[Any]) -> list[ParameterSet]:
    """Parameters of a test: every third by day, all at night."""
    return [pytest.param(value, marks=[pytest.mark.slow] if at % 3 else []) for at, value in enumerate(values)]


def shard_of(path: str) -> str:
    """The shard of a test module, by its path from the checkout's root."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        beginning = "/".join(parts[:length])
        for shard, paths in SHARDS.items():
            if beginning in paths:
                return shard
    raise LookupError(f"{path} belongs to no shard of the night: add it to SHARDS in tests/night.py")

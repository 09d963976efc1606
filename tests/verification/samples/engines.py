"""Both engines judge a run directory, and have to agree."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kafka_chaos.verification import RunDirectoryError, RunVerdict, verify
from tests.parquet import rows_in

if TYPE_CHECKING:
    from kafka_chaos.verification.tables.scope import Method

OF_THE_ENGINE = ("engine", "cross_check")
"""The keys of verdict.json in which engines differ: which one judged, and the cross-check."""
ENGINES = ["plain", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
"""The plain engine by day; at night Spark, too."""


class Verified(Protocol):
    """`verify` by whichever engine. `all_methods`: Spark in each of its ways."""

    def __call__(self, run_dir: Path, *, all_methods: bool = False, **options: Any) -> RunVerdict: ...


def verified_plainly(run_dir: Path, *, all_methods: bool = False, **options: Any) -> RunVerdict:
    """The verdict of the plain engine."""
    return verify(run_dir, engine="plain", **options)


def verified_by_both(
    run_dir: Path, *, spark: Any, method: Method | None = None, all_methods: bool = False, **options: Any
) -> RunVerdict:
    """The same verdict, after Spark has given it, with the same findings, or has refused with the same words."""
    from kafka_chaos.verification.tables.scope import Method

    expected = _told(run_dir, engine="plain", **options)
    for one in Method if all_methods else (method,):
        assert _told(run_dir, spark=spark, method=one, **options) == expected, one
    return verified_plainly(run_dir, **options)


def counted(verdict: RunVerdict) -> Counter[str]:
    """How often each anomaly was found in all lanes."""
    counts: Counter[str] = Counter()
    for lane in verdict.lanes:
        counts.update({str(anomaly): seen.count for anomaly, seen in lane.observed.items()})
    return counts


def _told(run_dir: Path, **options: Any) -> str | tuple[dict[str, Any], list[str]]:
    """A refusal; or the content of verdict.json and of findings/."""
    try:
        verdict = verify(run_dir, **options)
    except RunDirectoryError as error:
        return str(error)
    assert not verdict.cross_check.disagreements
    document = {name: value for name, value in verdict.to_json().items() if name not in OF_THE_ENGINE}
    return json.loads(json.dumps(document)), sorted(map(str, rows_in(run_dir / "findings")))

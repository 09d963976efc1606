"""The findings of a verified run, by lane and anomaly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.families import AnyAnomaly, anomaly_named
from kafka_chaos.contract.run_directory import VERDICT_FILE
from kafka_chaos.verification.inputs.documents.reading import parsed


@dataclass(frozen=True)
class Finding:
    """An anomaly of a lane."""

    lane: str
    anomaly: AnyAnomaly

    def __str__(self) -> str:
        return f"{self.lane}:{self.anomaly}"


def findings(verdict: Mapping[str, Any]) -> dict[Finding, bool]:
    """All findings in the content of a verdict.json, with whether the prediction forbids them, in their run at least;
    those first."""
    forbidden = {
        Finding(lane["lane"], anomaly_named(name)): Status.FORBIDDEN in (entry.get("status"), entry.get("in_this_run"))
        for lane in verdict["lanes"]
        for name, entry in lane["anomalies"].items()
        if entry["count"]
    }
    return dict(sorted(forbidden.items(), key=lambda entry: not entry[1]))


def findings_of(run_dir: Path) -> dict[Finding, bool]:
    """The findings of a run directory; raises `UsageFailure` where it has no verdict."""
    try:
        return findings(parsed((run_dir / VERDICT_FILE).read_bytes()))
    except (OSError, ValueError):
        raise UsageFailure(f"{run_dir}: no verdict: expected the directory of a run that was verified") from None


def finding_of(run_dir: Path, named: str | None) -> Finding:
    """The finding of this name, or without one the first that is forbidden; raises `UsageFailure`."""
    shown = findings_of(run_dir)
    names = ", ".join(map(str, shown)) or "nothing"
    if named is None:
        first = next((finding for finding, is_forbidden in shown.items() if is_forbidden), None)
        if first is None:
            raise UsageFailure(f"{run_dir}: nothing forbidden was found: name a finding by --finding (found: {names})")
        return first
    finding = next((finding for finding in shown if str(finding) == named), None)
    if finding is None:
        raise UsageFailure(f"--finding {named}: {run_dir} did not find it: expected LANE:ANOMALY out of {names}")
    return finding

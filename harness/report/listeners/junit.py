"""JUnit XML of a run: one test case per lane, for CI systems that show test results.

A violation is a failure, or skipped if it was accepted as a known defect. An unknown lane, and a run that ended without
verdicts, are errors.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.errors import counted
from kafka_chaos.contract.events import RunEnded
from kafka_chaos.harness.report.listeners.whole_run import WholeRun, found_in


class JunitFile(WholeRun):
    """Listener that writes the file when the run has ended, however it ended."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write(self, ended: RunEnded) -> None:
        """Write the file."""
        name, lanes = self.experiment, self.lanes
        judged = {lane.lane: lane for lane in self.judged}
        suite = ElementTree.Element("testsuite", name=name, time=f"{ended.seconds:.3f}")
        failures = errors = skipped = 0
        for lane in lanes or (name,):
            case = ElementTree.SubElement(suite, "testcase", classname=f"kafka_chaos.{name}", name=lane)
            result = judged.get(lane)
            if result is None:
                errors += 1
                ElementTree.SubElement(case, "error", message="the run failed before this lane was judged")
            elif result.accepted_defects:
                skipped += 1
                ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {'; '.join(result.reasons)}")
            elif result.verdict != Verdict.CONFORMS:
                broken = result.verdict == Verdict.VIOLATION
                failures, errors = failures + broken, errors + (not broken)
                problem = ElementTree.SubElement(
                    case, "failure" if broken else "error", message=f"{result.verdict}: {'; '.join(result.reasons[:1])}"
                )
                problem.text = "\n".join(result.reasons)
            if result is not None:
                output = ElementTree.SubElement(case, "system-out")
                output.text = (
                    f"{counted(result.produced, 'record')} produced, {result.acknowledged:,} acknowledged; "
                    f"found: {found_in(result)}"
                )
        suite.set("tests", str(len(lanes or (name,))))
        suite.set("failures", str(failures))
        suite.set("errors", str(errors))
        suite.set("skipped", str(skipped))
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(self._path, encoding="utf-8", xml_declaration=True)

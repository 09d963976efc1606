"""JUnit XML of a run: one test case per lane, for CI systems that show test results.

A violation is a failure; what could not be decided, and a run that the machine failed, are errors.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from kafka_chaos.harness.events import RunEnded
from kafka_chaos.harness.listeners.whole_run import WholeRun
from kafka_chaos.reference_model.anomalies import Verdict


class JunitFile(WholeRun):
    """Listener that writes the file when the run has ended, however it ended."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def tell(self, ended: RunEnded) -> None:
        """Write the file."""
        name, lanes = self.experiment, self.lanes
        judged = {lane.lane: lane for lane in self.judged}
        suite = ElementTree.Element("testsuite", name=name, time=f"{ended.seconds:.3f}")
        failures = errors = 0
        for lane in lanes or (name,):
            case = ElementTree.SubElement(suite, "testcase", classname=f"kafka_chaos.{name}", name=lane)
            result = judged.get(lane)
            if result is None:
                errors += 1
                ElementTree.SubElement(case, "error", message="the run failed before this lane was judged")
            elif result.verdict != Verdict.CONFORMS:
                broken = result.verdict == Verdict.VIOLATION
                failures, errors = failures + broken, errors + (not broken)
                told = ElementTree.SubElement(
                    case, "failure" if broken else "error", message=f"{result.verdict}: {'; '.join(result.reasons[:1])}"
                )
                told.text = "\n".join(result.reasons)
            if result is not None:
                output = ElementTree.SubElement(case, "system-out")
                output.text = f"produced {result.produced}, acknowledged {result.acknowledged}, found " + (
                    ", ".join(f"{anomaly} {count}" for anomaly, count in result.found.items()) or "nothing"
                )
        suite.set("tests", str(len(lanes or (name,))))
        suite.set("failures", str(failures))
        suite.set("errors", str(errors))
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(self._path, encoding="utf-8", xml_declaration=True)

"""Which releases of Kafka and of client libraries are newer than those that were run here?

    .venv/bin/python benchmarks/newer_releases.py

Asks each registry by its ordinary client: Maven for the newest Kafka and the newest patch of each supported line; pip,
Go and npm for the client libraries. Prints a line for each newer release, and adds it to the job's summary
(GITHUB_STEP_SUMMARY). A release of Kafka is tried by adding its line to harness/cluster/containers/versions.toml.
Exits with 3 if a registry gives no answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode
from kafka_chaos.harness.clients.kinds import KINDS, ClientKind
from kafka_chaos.harness.cluster.containers.versions import VERSIONS

_RELEASE = re.compile(r"\bv?(\d+(?:\.\d+)+)(?![\w.-])")
"""A release in what a registry's client prints; those before a release, such as 4.5.0-rc1, are none."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafka-chaos</groupId><artifactId>newest</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
<version>{wanted}</version></dependency></dependencies></project>"""
_RESOLVED = re.compile(r"org\.apache\.kafka:kafka-clients:jar:([\d.]+):")


def parts(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def asked(command: list[str], folder: Path) -> str:
    """What a registry's client prints; raises `EnvironmentFailure` with its last words if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise EnvironmentFailure(f"{command[0]} gave no answer: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def newest_of_kafka(wanted: str, folder: Path) -> str:
    """The newest release in a range of Maven, such as `[4.4.0,)`."""
    (folder / "pom.xml").write_text(_POM.format(wanted=wanted))
    printed = folder / "resolved.txt"
    asked(["mvn", "-q", "-B", "-U", "dependency:list", f"-DoutputFile={printed}"], folder)
    found = _RESOLVED.search(printed.read_text())
    if found is None:
        raise EnvironmentFailure(f"Maven resolved no release of Kafka in {wanted}")
    return found[1]


def newer(folder: Path) -> Iterator[str]:
    """A line for each newer release."""
    newest = next(iter(VERSIONS))
    if (release := newest_of_kafka(f"[{newest},)", folder)) != newest:
        yield f"Kafka {release} is out; the newest that was run here is {newest}"
    lines = {version.inter_broker_protocol: number for number, version in reversed(VERSIONS.items())}
    for line, patch in lines.items():
        *before, last = line.split(".")
        above = ".".join((*before, str(int(last) + 1)))
        if (release := newest_of_kafka(f"[{patch},{above}.0-alpha)", folder)) != patch:
            yield f"Kafka {release} is out; the newest of {line} that was run here is {patch}"
    # Java's client is released with Kafka.
    for kind in (kind for name, kind in KINDS.items() if name != "java"):
        release = max(_RELEASE.findall(asked(releases_of(kind), folder)), key=parts)
        if parts(release) > parts(kind.version):
            yield f"{kind.name} {release} is out; experiments use {kind.version} unless they name another"


def releases_of(kind: ClientKind) -> list[str]:
    """The command that prints a client library's releases, by the one that asks its registry for a version."""
    program, package = kind.manager.asks[0], kind.package
    of_program = {"go": ["go", "list", "-m", "-versions", package], "npm": ["npm", "view", package, "version"]}
    return of_program.get(program, [sys.executable, "-m", "pip", "index", "versions", package])


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-releases-") as folder:
        try:
            lines = list(newer(Path(folder))) or ["No newer release of Kafka or of a client library is out."]
        except (EnvironmentFailure, subprocess.TimeoutExpired) as failure:
            print(failure, file=sys.stderr)
            return ExitCode.ENVIRONMENT
    print("\n".join(lines))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a") as page:
            page.write("".join(f"- {line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The core in TLA+ (reference_model/tla/), searched by TLC, is the core in Python: as many states, as many steps, the
same breaches.

Needs Java, and Maven for the copy of TLC; `make setup` installs both.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import kafka_chaos.reference_model as model
from kafka_chaos.harness.cluster.containers.image import copy_dependencies
from kafka_chaos.reference_model.explore.core import CoreScope
from kafka_chaos.reference_model.explore.exploration import INVARIANTS, STEP_INVARIANTS, explore
from kafka_chaos.reference_model.protocol import PROTOCOLS

SPECIFICATION = Path(model.__path__[0]) / "tla"

SCOPES = {
    "one record": CoreScope(brokers=2, records=1, leader_epochs=2),
    "every weaker variant breaks": CoreScope(brokers=2, records=2, leader_epochs=3),
    "three brokers": CoreScope(brokers=3, records=2, leader_epochs=2),
    "restarts and unclean elections": CoreScope(
        brokers=2, records=2, leader_epochs=2, faults=("kill", "power-loss"), unclean_leader_election=True
    ),
}

DONE = "Model checking completed. No error has been found."
COUNTED = re.compile(r"^(\d+) states generated, (\d+) distinct states found, 0 states left on queue\.$", re.MULTILINE)
DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)\.$", re.MULTILINE)
BREAKS = re.compile(r'^<<"breaks", "(\w+)", (\d+)>>$', re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """The result of a search; `breaches` has the steps of the shortest way to each broken invariant."""

    states: int
    transitions: int
    depth: int
    breaches: dict[str, int]


def by_python(protocol: str, scope: CoreScope) -> Found:
    found = explore(PROTOCOLS[protocol], scope)
    assert found.complete
    breaches = {name: len(trace) - 1 for name, (holds, trace) in found.invariants.items() if not holds}
    return Found(found.states, found.transitions, found.depth, breaches)


def configuration(scope: CoreScope) -> str:
    return f"""
CONSTANTS
    BROKERS = {scope.brokers}
    RECORDS = {scope.records}
    LEADER_EPOCHS = {scope.leader_epochs}
    KILLS = {scope.faults.count("kill")}
    POWER_LOSSES = {scope.faults.count("power-loss")}
    UNCLEAN = {str(scope.unclean_leader_election).upper()}
INIT watched_init
NEXT next
CONSTRAINT watch_states
ACTION_CONSTRAINT watch_steps
INVARIANT exchange_finds_last_common_epoch
"""


class Tlc:
    """TLC in a folder of its own."""

    def __init__(self, jars: Path, scratch: Path) -> None:
        self.jars = jars
        self.scratch = scratch

    def run(self, protocol: str, scope: CoreScope, specification: Path = SPECIFICATION) -> str:
        """All that TLC says."""
        module = "".join(word.capitalize() for word in protocol.split("-"))
        config = self.scratch / "scope.cfg"
        config.write_text(configuration(scope), "utf-8")
        java = ["java", "-Xmx1g", "-XX:+UseParallelGC", f"-Djava.io.tmpdir={self.scratch}", "-cp", f"{self.jars}/*"]
        # One worker: the registers of Breaches.tla are a worker's own, and the depth is exact. A state without a next
        # one is no deadlock but the end of the scope.
        options = ["-workers", "1", "-deadlock", "-metadir", str(self.scratch / "states"), "-config", str(config)]
        command = [*java, "tlc2.TLC", *options, f"{module}.tla"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=specification)
        return done.stdout + done.stderr

    def search(self, protocol: str, scope: CoreScope, specification: Path = SPECIFICATION) -> Found:
        said = self.run(protocol, scope, specification)
        counted, depth = COUNTED.search(said), DEPTH.search(said)
        assert DONE in said, said
        assert counted is not None, said
        assert depth is not None, said
        # TLC also counts the initial state as generated, and states instead of steps as depth.
        breaches = {name: int(steps) for name, steps in BREAKS.findall(said)}
        return Found(int(counted[2]), int(counted[1]) - 1, int(depth[1]) - 1, breaches)


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("java") is None:
        pytest.fail("TLC needs Java: run `make setup`, or put java 17 or later in PATH")
    folder = tmp_path_factory.mktemp("tlc") / "jars"
    copy_dependencies(SPECIFICATION / "pom.xml", folder, {})
    return folder


@pytest.fixture
def tlc(jars: Path, tmp_path: Path) -> Tlc:
    return Tlc(jars, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tlc_finds_the_same_states_and_the_same_breaches(tlc: Tlc, protocol: str, scope: CoreScope) -> None:
    assert tlc.search(protocol, scope) == by_python(protocol, scope)


def test_tlc_watches_every_invariant() -> None:
    watched = re.findall(r'<<"(\w+)", (\w+)>>', (SPECIFICATION / "Breaches.tla").read_text("utf-8"))
    assert watched == [(name, name) for name in (*INVARIANTS, *STEP_INVARIANTS)]


# What no variant breaks, TLC sees break where the rule behind it is changed.
CHANGES = {
    "leader_in_isr": ("decide(leader, isr \\ {broker})", "decide(leader_of_record, isr \\ {broker})"),
    "log_matching": ("epoch |-> replicas[broker].leader_epoch]", "epoch |-> 0]"),
    "one_leader_per_epoch": ("!.leader_epoch = epoch, !.leader", "!.leader_epoch = 0, !.leader"),
    "high_watermark_monotonic": (
        "![broker].log = Append(@, entry)]",
        "![broker].log = Append(@, entry), ![broker].high_watermark = 0]",
    ),
}


def specification_with(folder: Path, module: str, rule: str, changed: str) -> Path:
    """A copy of the specification in which one rule of a module is another."""
    specification = folder / "changed"
    shutil.copytree(SPECIFICATION, specification)
    written = (specification / module).read_text("utf-8")
    assert written.count(rule) == 1
    (specification / module).write_text(written.replace(rule, changed), "utf-8")
    return specification


@pytest.mark.slow
@pytest.mark.parametrize("invariant", CHANGES)
def test_tlc_sees_every_other_invariant_break(tlc: Tlc, tmp_path: Path, invariant: str) -> None:
    specification = specification_with(tmp_path, "Replication.tla", *CHANGES[invariant])
    assert invariant in tlc.search("kip320", SCOPES["every weaker variant breaks"], specification).breaches


@pytest.mark.slow
def test_a_wrong_truncation_exchange_is_an_error(tlc: Tlc, tmp_path: Path) -> None:
    rule = "IF answer = asked THEN min(end, leader_end)"
    specification = specification_with(tmp_path, "Truncation.tla", rule, rule.replace("answer = asked", "TRUE"))
    said = tlc.run("kip320", SCOPES["one record"], specification)
    assert DONE not in said
    assert "exchange_finds_last_common_epoch" in said

"""Every variant's expected breach is found and every expected invariant held."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from kafka_chaos.reference_model.cli import explore_command
from kafka_chaos.reference_model.explore.core import CoreScope
from kafka_chaos.reference_model.explore.exploration import INVARIANTS, STEP_INVARIANTS, explore
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.search import Budget
from tests.commands import ended

SMALL = CoreScope(brokers=2, records=2, leader_epochs=3)
FULL = CoreScope(brokers=3, records=2, leader_epochs=3)
EVERY_INVARIANT = {*INVARIANTS, *STEP_INVARIANTS}


def broken(protocol: str, scope: CoreScope) -> set[str]:
    exploration = explore(PROTOCOLS[protocol], scope)
    assert exploration.complete
    assert set(exploration.invariants) == EVERY_INVARIANT
    return {name for name, (holds, _) in exploration.invariants.items() if holds is False}


@pytest.mark.parametrize("protocol", ["truncate-to-high-watermark", "kip101-fenced"])
def test_the_weaker_variants_break_strong_isr(protocol: str) -> None:
    exploration = explore(PROTOCOLS[protocol], SMALL, until=frozenset({"strong_isr"}))
    holds, trace = exploration.invariants["strong_isr"]
    assert holds is False
    assert trace[-1].startswith("Now the ISR is")
    assert any("learns that it follows broker" in sentence for sentence in trace)


@pytest.mark.parametrize("scope", [SMALL, CoreScope(brokers=3, records=2, leader_epochs=2)])
def test_kip320_holds_everything_where_the_search_is_exhausted(scope: CoreScope) -> None:
    assert broken("kip320", scope) == set()


def test_a_search_that_was_cut_short_claims_nothing() -> None:
    exploration = explore(PROTOCOLS["kip320"], FULL, budget=Budget(1000))
    assert not exploration.complete
    assert {holds for holds, _ in exploration.invariants.values()} == {None}


@pytest.mark.parametrize("fault", ["kill", "power-loss"])
def test_restarts_break_strong_isr_only_where_the_log_is_shortened(fault: str) -> None:
    scope = replace(SMALL, records=1, faults=(fault,))
    assert ("strong_isr" in broken("kip320", scope)) == (fault == "power-loss")


def test_an_unclean_election_loses_what_was_committed() -> None:
    assert "committed_records_kept" in broken("kip320", replace(SMALL, unclean_leader_election=True))


def test_the_command_prints_the_breach_as_json() -> None:
    arguments = ["--protocol", "kip101", "--brokers", "2", "--records", "2", "--leader-epochs", "2", "--json"]
    result = CliRunner().invoke(explore_command, arguments)
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["complete"] is True
    assert answer["invariants"]["leader_in_isr"] == {"holds": True, "trace": []}


def test_the_command_tells_each_breach_as_a_story_and_whether_the_scope_was_exhausted() -> None:
    arguments = ["--protocol", "truncate-to-high-watermark", "--brokers", "2"]
    output = CliRunner().invoke(explore_command, arguments).stdout
    first, story, _ = output.split("\n\n")[0].split("\n", 2)
    assert first == "weak_isr: BROKEN"
    assert story.startswith("    1. The controller makes broker 1 the leader")
    assert "strong_isr: BROKEN" in output
    assert "leader_in_isr: holds" in output
    assert output.rstrip().endswith("scope exhausted")
    cut_short = CliRunner().invoke(explore_command, [*arguments, "--max-states", "100"])
    assert cut_short.exit_code == 0
    assert "leader_in_isr: not known" in cut_short.stdout
    assert cut_short.stdout.rstrip().endswith("scope NOT exhausted")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(("--protocol", "raft"), "kip320"), (("--brokers", "0"), "--brokers"), (("--faults", "meteor"), "'meteor'")],
)
def test_the_command_refuses_what_it_cannot_explore(arguments: tuple[str, ...], named: str) -> None:
    result = ended(explore_command, *arguments)
    assert result.exit_code == 64
    assert named in result.output

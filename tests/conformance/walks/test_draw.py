"""Random walks as they are drawn: possible, decided, varied, and the same again from the same seed."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kafka_chaos.conformance.scenario import in_model
from kafka_chaos.conformance.walks.draw import draw
from kafka_chaos.conformance.walks.group import CLIENTS, Group, WalkStep, actions_of, config_of, cuts_after
from kafka_chaos.reference_model.lockstep.cluster_model import URGENT, ClusterModel, Step
from kafka_chaos.reference_model.lockstep.controller import session_ends
from kafka_chaos.reference_model.lockstep.observation.cluster import observe_state
from kafka_chaos.reference_model.lockstep.state import ClusterConfig
from kafka_chaos.reference_model.protocol import PROTOCOLS

pytestmark = pytest.mark.xdist_group("walks")
"""In one process, which draws once."""
SEEDS = range(30)


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return [draw(seed) for seed in SEEDS]


def test_a_seed_gives_the_same_group_in_every_process() -> None:
    script = "from kafka_chaos.conformance.walks.draw import draw\nfor seed in range(5): print(draw(seed))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert told == {"".join(f"{draw(seed)}\n" for seed in range(5))}


def test_every_kind_of_step_and_every_setting_occurs(groups: list[Group]) -> None:
    steps = [one for group in groups for one in group.steps]
    assert {one.kind for one in steps} == {CLIENTS, "kill", "stop", "start", "pause", "thaw", "cut", "heal"}
    own = [client for one in steps for client in one.clients]
    assert {(bool(client.record), bool(client.order)) for client in own} == {
        (True, False),
        (False, True),
        (False, False),
    }
    walks = [walk for group in groups for walk in group.walks]
    assert {walk.acks for walk in walks} == {"0", "1", "all"}
    assert {len(walk.replicas) for walk in walks} == {2, 3}
    assert {walk.unclean_leader_election for walk in walks} == {walk.idempotent for walk in walks} == {False, True}
    assert {group.lag_is_short for group in groups} == {False, True}
    assert all(len(group.steps) == 12 and len(group.walks) == 6 for group in groups)


def in_models(group: Group, walk: int) -> Iterator[tuple[WalkStep, tuple[Step, ...]]]:
    """A walk's steps, healing included, each with its actions in the model."""
    cuts: tuple[in_model.Cut, ...] = ()
    for one in (*group.steps, *group.closing):
        yield one, actions_of(one, walk, group.walks[walk], cuts)
        cuts = cuts_after(one, cuts)


def taken(group: Group, walk: int, model: ClusterModel, chance: random.Random) -> Iterator[WalkStep]:
    """Take a walk in the model, and keep one of the states that each step may end in, as an observation would."""
    for one, actions in in_models(group, walk):
        for action in actions:
            model.apply(action)
        yield one
        model.states = frozenset({chance.choice(sorted(model.states, key=repr))})


def test_every_step_is_possible_whatever_was_observed_before(groups: list[Group]) -> None:
    for group in groups[:10]:
        for number, settings in enumerate(group.walks):
            model = ClusterModel(replace(config_of(settings, lag_is_short=group.lag_is_short), controller=1))
            for one in taken(group, number, model, random.Random(group.seed)):
                for state in model.states:
                    frozen = any(replica.frozen for replica in state.replicas)
                    assert not (frozen and (state.outgoing or state.pending)), f"{group}\nafter {one}: a client waits"
            (end,) = model.states
            assert all(replica.runs for replica in end.replicas)
            assert not end.cuts
            assert end.partition.isr == tuple(sorted(settings.replicas)), str(group)


def truncates_to_the_high_watermark(config: ClusterConfig) -> ClusterModel:
    return ClusterModel(replace(config, protocol=PROTOCOLS["truncate-to-high-watermark"]))


def keeps_dead_sessions(config: ClusterConfig) -> ClusterModel:
    return ClusterModel(config, urgent=tuple(action for action in URGENT if action is not session_ends))


def elects_unclean(config: ClusterConfig) -> ClusterModel:
    return ClusterModel(replace(config, unclean_leader_election=True))


def commits_early(config: ClusterConfig) -> ClusterModel:
    return ClusterModel(replace(config, min_insync_replicas=1))


@pytest.mark.parametrize("wrong", [truncates_to_the_high_watermark, keeps_dead_sessions, elects_unclean, commits_early])
def test_walks_notice_a_wrong_rule(groups: list[Group], wrong: Callable[[ClusterConfig], ClusterModel]) -> None:
    """The right model stands for the brokers: some walk shows a state that the wrong one does not allow."""
    assert any(disagrees(group, walk, wrong) for group in groups for walk in range(len(group.walks))), (
        "no walk tells the wrong rule from the right one"
    )


def disagrees(group: Group, walk: int, wrong: Callable[[ClusterConfig], ClusterModel]) -> bool:
    config = replace(config_of(group.walks[walk], lag_is_short=group.lag_is_short), controller=1)
    brokers, model = ClusterModel(config), wrong(config)
    chance = random.Random(group.seed)
    for _, actions in in_models(group, walk):
        for action in actions:
            brokers.apply(action)
            model.apply(action)
        seen = chance.choice(sorted(brokers.states, key=repr))
        brokers.states = frozenset({seen})
        if not model.narrow(observe_state(seen)).conforms:
            return True
    return False


def test_a_restart_lifts_the_cuts_at_the_broker() -> None:
    cuts = [("replication", 1, 2), ("replication", 2, 3), ("replication", 3, 2)]
    assert in_model.lifted(cuts, 2) == (cuts[0], cuts[2])
    assert [step.name for step in in_model.start(2, in_model.lifted(cuts, 2))] == ["start", "heal", "heal"]

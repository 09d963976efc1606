"""Files of scenarios: every step is checked before a cluster starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kafka_chaos.conformance.scenario.registry import check_acts, folders, scenarios_in
from kafka_chaos.contract.command.errors import UsageFailure


def test_every_scenario_of_this_project_passes_the_check() -> None:
    files = [path for folder in folders().values() for path in sorted(folder.rglob("*.yaml"))]
    assert files
    for path in files:
        content = YAML(typ="safe").load(path)
        for name, scenario in content["scenarios"].items():
            if "acts" in scenario:
                check_acts(name, scenario["acts"], content)


def story(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    act: dict[str, Any] = {"act": "a", "steps": [{"produce": "m", "acks": "1"}, {"kill": 1}]}
    change(act)
    return {"scenarios": {"mine": {"title": "t", "story": "s", "acts": [act]}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda act: act["steps"].append({"kil": 1}), "act 1, step 3: 'kil' is neither a step nor a part"),
        (lambda act: act["steps"].append({"roll": None, "then": {"kil": {}}}),
         "step 3: then 'kil': expected an action"),
        (lambda act: act["steps"].append({"_cuts": 1}), "step 3: '_cuts' is neither a step nor a part"),
        (lambda act: act["steps"].append({"lose power": 1}), "step 3: lose power: missing a required .* 'kept'"),
        (lambda act: act["steps"].append({"expect": "x", "lgo(1)": []}),
         "step 3: expect: 'lgo' can't be observed"),
        (lambda act: act["steps"].append({"fact": "x"}), "step 3: fact: '' can't be observed"),
        (lambda act: act["steps"].append({"stop": 1, "how": "x"}), "step 3: stop: got an unexpected keyword"),
        (lambda act: act["steps"].append([{"kill": 1}, 7]), "step 3, step 2: expected a step's name"),
        (lambda act: act["steps"].append({"kill": 1, "when": "never"}), "when 'never': expected eligible or not"),
        (lambda act: act.update(replica=[1]), "act 1: unknown key 'replica'"),
        (lambda act: act.update(cluster="fast"), "no cluster 'fast': expected one of quick, steady"),
        (lambda act: act.update(cluster={"name": "x", "broker": 1}), "act 1, cluster: unknown key 'broker'"),
        (lambda act: act.pop("steps"), "act 1: expected `act`, its name, and a list of `steps`"),
        (lambda act: act["steps"].append({5: 1}), "step 3: expected a step's name"),
        (lambda act: act["steps"].append({"remember": 5}), "step 3: remember: expected a mapping, got 5"),
        (lambda act: act["steps"].append({"kill": 1, "when": [1]}), "when .1.: expected eligible or not"),
        (lambda act: act.update(cluster=[1]), "no cluster .1.: expected one of quick, steady"),
        (lambda act: act.update({"for": [5]}), "act 1, for: expected a mapping, got 5"),
        (lambda act: act.update(before=5), "act 1, before: expected a list, got 5"),
        (lambda act: act.update(group={"member": 1}), "act 1, group: unknown key 'member'"),
        (lambda act: act.update(group={}), "act 1: expected `reads` beside `group`"),
        (lambda act: act.update(transactional={"id": "t"}), "act 1, transactional: unknown key 'id'"),
    ],
)  # fmt: skip
def test_what_can_not_be_played_is_refused_with_its_place(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    YAML().dump(story(lambda act: None), file)
    assert [scenario.id for scenario in scenarios_in(file)] == ["mine"]
    YAML().dump(story(change), file)
    with pytest.raises(UsageFailure, match=message):
        scenarios_in(file)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"kill": "{broker}"}, {"kil": 1}], "act 1, step 3, part 'fails', step 2: 'kil' is neither a step nor a part"),
        ([{"lose power": "{broker}"}], "part 'fails', step 1: lose power: missing a required .* 'kept'"),
        ([{"fails": None}], "part 'fails', step 1: 'fails' is neither a step nor a part"),
        (5, "parts.fails: expected a list, got 5"),
    ],
)
def test_the_steps_of_a_part_are_checked_where_it_is_used(steps: object, message: str, tmp_path: Path) -> None:
    scenario = story(lambda act: act["steps"].append({"fails": None, "broker": 2}))
    YAML().dump({**scenario, "parts": {"fails": steps}}, tmp_path / "mine.yaml")
    with pytest.raises(UsageFailure, match=message):
        scenarios_in(tmp_path / "mine.yaml")


def test_arguments_of_a_members_step_are_checked(tmp_path: Path) -> None:
    def grouped(act: dict[str, Any]) -> None:
        act |= {"group": {"members": 1}, "reads": {"records": 1}, "steps": [{"poll": 1, "partitions": 2}]}

    YAML().dump(story(grouped), tmp_path / "mine.yaml")
    with pytest.raises(UsageFailure, match="step 1: poll: got an unexpected keyword argument 'partitions'"):
        scenarios_in(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected `scenarios` by id"),
        ("[1]", "expected `scenarios` by id"),
        ("scenarios: {}", "expected `scenarios` by id"),
        ("scenarios: {a: {title: t}}", "scenarios.a: expected the texts `title` and `story`"),
        ("{parts: 5, scenarios: {a: {title: t, story: s, acts: [1]}}}", "parts: expected a mapping, got 5"),
        ("{clusters: {x: {broker: 1}}, scenarios: {a: {title: t, story: s, acts: [1]}}}", "unknown key 'broker'"),
        ("scenarios: {a: {title: t, story: s, play: os:getcwd}}", "scenarios.a: expected a list of `acts`"),
        ("scenarios: {", "mine.yaml"),
        (None, "mine.yaml.*No such file"),
    ],
)
def test_a_file_without_scenarios_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageFailure, match=message):
        scenarios_in(file)

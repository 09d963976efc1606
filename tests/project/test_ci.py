"""The files of both CI hosts call the steps that .ci/steps has, and define none of their own."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.night import SHARDS, shard_of

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
STEPS = (ROOT / ".ci" / "steps").read_text(encoding="utf-8")


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def known_steps() -> dict[str, str]:
    """The targets of `make` by step."""
    lines = re.findall(r"^    ([a-z| -]+)\) echo ([^;]+) ;;$", STEPS, re.MULTILINE)
    steps = {name.strip(): targets for names, targets in lines for name in names.split("|")}
    return {name: name if targets == '"$1"' else targets for name, targets in steps.items()}


def called_steps(path: Path) -> Iterator[str]:
    for names in re.findall(r"\.ci/steps ([a-z -]+)", re.sub(r"(?m)^ *#.*$", "", path.read_text(encoding="utf-8"))):
        yield from names.split()


@pytest.mark.parametrize(
    "path", [*sorted(WORKFLOWS.glob("*.yml")), ROOT / ".gitlab-ci.yml"], ids=lambda path: path.name
)
def test_every_step_that_is_called_exists(path: Path) -> None:
    assert set(called_steps(path)) <= known_steps().keys()


def test_every_step_is_documented_and_a_target_of_make() -> None:
    assert set(re.findall(r"^#   ([a-z-]+) +\S", STEPS, re.MULTILINE)) == known_steps().keys()
    for targets in known_steps().values():
        subprocess.run(["make", "--dry-run", *targets.split()], cwd=ROOT, check=True, capture_output=True)


def test_every_step_runs_on_both_hosts() -> None:
    gitlab = load(ROOT / ".gitlab-ci.yml")
    nightly = load(WORKFLOWS / "nightly.yml")
    slow = nightly["jobs"]["slow"]["strategy"]["matrix"]["step"]
    assert gitlab["slow"]["parallel"]["matrix"] == [{"STEP": slow}]
    assert {f"test-night-{shard}" for shard in SHARDS} <= set(slow)
    for files in ([WORKFLOWS / "ci.yml", WORKFLOWS / "nightly.yml"], [ROOT / ".gitlab-ci.yml"]):
        assert {name for path in files for name in called_steps(path)} | set(slow) == known_steps().keys()


def test_every_benchmark_and_every_test_is_run_by_some_step() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = set(re.findall(r"benchmarks/(\w+\.py)", makefile))
    # The yardstick that verify_bench.py and verify_sizes.py run beside Spark, and what others import.
    searches = {"cluster_search.py", "cluster_invariants.py", "larger_scopes.py", "negative_controls.py"}
    shared = {"tables.py", "leftovers.py", "verify_duckdb.py"} | searches
    assert run | shared == {path.name for path in (ROOT / "benchmarks").glob("*.py")}


def test_every_test_belongs_to_the_day_or_to_one_shard_of_the_night() -> None:
    """The day leaves out the slow ones, and a shard has the slow ones of its modules: together that is all of them."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = dict(re.findall(r"^([a-z%-]+):.*\n((?:\t.*\n)*)", makefile, re.MULTILINE))
    assert re.findall(r"\$\(PYTEST\) \$\(SIDE_BY_SIDE\) (.*)$", recipes["test"], re.MULTILINE) == ['-m "not slow"']
    assert re.findall(r"\$\(PYTEST\) \$\(SIDE_BY_SIDE\) (.*)$", recipes["test-night-%"], re.MULTILINE) == [
        "--shard=$* --hypothesis-profile=night"
    ]
    (shards,) = re.findall(r"^SHARDS := (.*)$", makefile, re.MULTILINE)
    assert shards.split() == list(SHARDS)
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    used = {shard_of(module) for module in modules}
    assert used == set(SHARDS), "each shard has modules"
    beginnings = [path for paths in SHARDS.values() for path in paths]
    assert len(beginnings) == len(set(beginnings)), "no module has two shards"
    assert all((ROOT / path).exists() for path in beginnings)


def test_a_module_without_a_shard_is_refused() -> None:
    with pytest.raises(LookupError, match=r"tests/new/test_it\.py belongs to no shard of the night"):
        shard_of("tests/new/test_it.py")


def test_the_night_keeps_its_record_and_fails_on_a_violation() -> None:
    steps = load(WORKFLOWS / "nightly.yml")["jobs"]["nightly"]["steps"]
    (night,) = [number for number, step in enumerate(steps) if step.get("run") == ".ci/steps nightly"]
    assert not any("continue-on-error" in step for step in steps)
    assert all(step.get("if") == "always()" for step in steps[night + 1 :]), "a violation is published too"
    gitlab = load(ROOT / ".gitlab-ci.yml")["nightly"]
    assert gitlab["script"][-1] == ".ci/steps nightly"
    assert gitlab["artifacts"]["when"] == gitlab["cache"]["when"] == "always"
    assert gitlab["cache"]["paths"] == [gitlab["variables"]["NIGHTLY_HISTORY"]]


def test_a_step_that_does_not_exist_ends_with_64_before_anything_starts() -> None:
    for arguments in ([], ["deploy"], ["lint", "deploy"]):
        done = subprocess.run([str(ROOT / ".ci" / "steps"), *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (64, "")


def test_nothing_is_published_before_ci_has_passed_and_a_person_agreed() -> None:
    release = load(WORKFLOWS / "release.yml")["jobs"]
    assert release["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert release["publish"]["needs"] == "ci"
    assert release["publish"]["environment"] == "release"
    assert release["publish"]["permissions"] == {"id-token": "write"}
    publish = load(ROOT / ".gitlab-ci.yml")["publish"]
    assert set(publish["needs"]) == {"unit", "test", "docs", "package"}
    assert (publish["environment"], publish["rules"][0]["when"]) == ("release", "manual")

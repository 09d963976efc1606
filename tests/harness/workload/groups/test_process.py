"""The process of a member, which finds no broker: it leaves when told, and lives no longer than the harness."""

import json
import subprocess
import sys
from unittest.mock import Mock

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.groups.group_kinds import member_configs
from kafka_chaos.harness.workload.groups.settings import MemberSettings
from tests.processes import runs

MODULE = "kafka_chaos.harness.workload.groups.process"
SETTINGS = MemberSettings(
    group="g",
    name="g-0",
    lane="orders",
    topic="orders",
    configs={**member_configs(Group()), "group.id": "g", "bootstrap.servers": "127.0.0.1:1"},
    commits="after",
    freeze_seconds=1.0,
)
BEGINS_WITHIN = 60.0


def test_what_the_client_refuses_is_told_with_its_reason() -> None:
    settings = {"role": "member", **SETTINGS, "configs": {**SETTINGS["configs"], "partition.assignment.strategy": "no"}}
    member = SupervisedProcess(command_of(MODULE), settings, Mock(), name="g-0", on_notice=print, may_end=True)
    assert member.join(BEGINS_WITHIN)
    assert member.exit_code == 70
    assert "partition.assignment.strategy" in (member.problem or "")


def test_a_member_dies_with_the_harness() -> None:
    """The harness is killed: nobody is left to tell the member anything."""
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, json.dumps(SETTINGS) + "\n"], stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert harness.stdout is not None
    member = int(harness.stdout.readline())
    harness.kill()
    harness.wait()
    wait_until(lambda: not runs(member), "the member to end", timeout=BEGINS_WITHIN)


_HARNESS = """
import subprocess, sys, time
member = subprocess.Popen([sys.executable, "-m", "kafka_chaos.harness.workload.groups.process"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8")
member.stdin.write(sys.argv[1])
member.stdin.flush()
print(member.pid, flush=True)
time.sleep(600)
"""


def test_a_member_starts_without_the_libraries_of_the_harness() -> None:
    """Members come and go amid the load: with PyArrow, each start takes three times as long."""
    program = "import sys, kafka_chaos.harness.workload.groups.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "confluent_kafka" in loaded
    assert {"pyarrow", "pydantic"}.isdisjoint(loaded)

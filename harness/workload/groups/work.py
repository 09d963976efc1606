"""The work of a group: what its members read, write and are told when they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_chaos.contract.groups import Group
from kafka_chaos.contract.transactions import transactional_id
from kafka_chaos.harness.workload.groups.configs import member_configs
from kafka_chaos.harness.workload.groups.settings import MemberSettings, OutputSettings
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker

_FROZEN_LONGER = 2.0

StartMember = Callable[[MemberSettings, Taker], SupervisedProcess]
"""Starts a member of another client, which reports its problems itself."""

OnChange = Callable[[str, str, str], None]
"""Learns what became of a member: its group, its name, and a change of `MemberChanged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group and what it reads: `group_id` of the members in `settings`, partitions 0 to `partitions` of `lane`.

    `output`: what a loop writes; its `configs` get a `transactional.id` of each member's own if it uses transactions.
    """

    group_id: str
    settings: Group
    lane: str
    topic: str
    partitions: int
    isolation: str
    bootstrap_servers: str
    client_configs: Mapping[str, str]
    duration: float
    output: OutputSettings | None = None


def _consumer_configs(work: GroupWork, place: int) -> dict[str, Any]:
    """librdkafka's configs of the member in this place."""
    group = work.settings
    return {
        **member_configs(group),
        "group.id": work.group_id,
        **({"group.instance.id": f"{work.group_id}-{place}"} if group.static else {}),
        "isolation.level": work.isolation,
        # In a loop, the member itself commits.
        **({} if work.output is None else {"enable.auto.commit": False}),
        **work.client_configs,
        "bootstrap.servers": work.bootstrap_servers,
    }


def member_settings(work: GroupWork, place: int, number: int) -> MemberSettings:
    """What the member of this number is told, in this place of the group."""
    output = work.output
    if output is not None:
        configs = dict(output.configs)
        if "transactional.id" in configs:
            configs["transactional.id"] = transactional_id(output.lane, place)
        output = replace(output, configs=configs, producer_id=number, seed=f"{output.seed}/{number}")
    return MemberSettings(
        group=work.group_id,
        name=f"{work.group_id}-{number}",
        lane=work.lane,
        topic=work.topic,
        configs=_consumer_configs(work, place),
        commits=work.settings.commits,
        freeze_seconds=work.settings.max_poll_interval_ms / 1000 + _FROZEN_LONGER,
        output=output,
    )

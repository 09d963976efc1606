"""Removes what a run created: containers, networks and volumes by label, the folder of its keys, and its disks.

Frozen disks are thawed first, since a process that waits for one can't be ended. Nothing else is touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_chaos.faults.storage.devices.healing import journals, remove_disks, thaw_disks
from kafka_chaos.harness.cluster.containers.labels import (
    KEEP,
    RUN,
    owner_is_alive,
    remove_abandoned_secrets,
    remove_secrets,
)
from kafka_chaos.harness.signals import signals_held_back

if TYPE_CHECKING:
    from docker import DockerClient


_PASSES = 20


@dataclass(frozen=True)
class Leftover:
    """The leftovers of one run: its id, its numbers of containers, networks, volumes and disks; whether it was kept."""

    run_id: str
    things: int
    kept: bool
    alive: bool


def remove_run(client: DockerClient, run_id: str) -> int:
    """Remove everything labelled with `run_id`; the number of things removed.

    Passes are repeated until one finds nothing: an interrupted create call may still take effect in the engine.
    A signal that arrives meanwhile is held back until all is gone.
    """
    removed = 0
    with signals_held_back():
        thaw_disks(run_id)
        for _ in range(_PASSES):
            mine = {"label": f"{RUN}={run_id}"}
            containers = client.containers.list(all=True, filters=mine, ignore_removed=True)
            if containers:
                with ThreadPoolExecutor(max_workers=len(containers)) as threads:
                    list(threads.map(_remove_container, containers))
            others = [*client.networks.list(filters=mine), *client.volumes.list(filters=mine)]
            for thing in others:
                with already_gone():
                    thing.remove()
            found = len(containers) + len(others)
            removed += found
            if not found:
                break
        removed += remove_disks(run_id)
        remove_secrets(run_id)
    return removed


def heal_abandoned_disks(client: DockerClient) -> None:
    """Remove what dead runs with disks left: a disk that stays frozen may stall the whole machine."""
    for run_id in _abandoned():
        remove_run(client, run_id)


def thaw_abandoned_disks() -> None:
    """Thaw the disks of dead runs, which needs no Docker engine."""
    for run_id in _abandoned():
        thaw_disks(run_id)


def _abandoned() -> list[str]:
    """Dead runs with disks that were not kept on purpose."""
    found = journals()
    return [one.run_id for one in found if KEEP not in one.labels and not owner_is_alive(one.labels)]


def leftovers(client: DockerClient) -> list[Leftover]:
    """All runs of which something is left on this engine or on this machine's disks, in the order of their ids."""
    by_run: dict[str, list[dict[str, str]]] = {}
    for labels in _labels_of_everything(client):
        by_run.setdefault(labels[RUN], []).append(labels)
    return [
        Leftover(run_id, len(things), any(KEEP in labels for labels in things), any(map(owner_is_alive, things)))
        for run_id, things in sorted(by_run.items())
    ]


def clean(client: DockerClient, *, kept: bool = False) -> list[Leftover]:
    """Remove leftovers of runs whose process is dead, kept clusters only with `kept`; what was removed."""
    dead = [left for left in leftovers(client) if not left.alive and (kept or not left.kept)]
    for left in dead:
        remove_run(client, left.run_id)
    remove_abandoned_secrets(kept={left.run_id for left in leftovers(client)})
    return dead


def _remove_container(container: Any) -> None:
    with already_gone():
        container.remove(force=True, v=True)


@contextlib.contextmanager
def already_gone() -> Iterator[None]:
    """Suppress errors which say that it is or is being removed, does not run, or is used by a container that is."""
    from docker.errors import APIError, NotFound

    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if error.status_code not in (403, 409):
            raise


def _labels_of_everything(client: DockerClient) -> Iterator[dict[str, str]]:
    any_run = {"label": RUN}
    for container in client.containers.list(all=True, filters=any_run, ignore_removed=True):
        yield container.labels
    for thing in (*client.networks.list(filters=any_run), *client.volumes.list(filters=any_run)):
        yield thing.attrs["Labels"]
    for recorded in journals():
        yield from [dict(recorded.labels)] * len(recorded.disks)


def choose_reaper(client: DockerClient, *, keep: bool) -> bool:
    """Switch the reaper on or off for this process; True when it is used. A kept cluster must not be reaped.

    It removes a session's containers even if the harness is killed with SIGKILL. Where its image is not available,
    labels and `kafka-chaos clean` do the same.
    """
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import Reaper

    present = bool(client.images.list(name=testcontainers_config.ryuk_image))
    use = present and not keep and not testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = not use
    if use:
        # Nodes that start at once would each start one.
        Reaper.get_instance()
    return use


def try_to_pull_reaper(client: DockerClient) -> bool:
    """Get the reaper's image for later runs; False where no registry answers."""
    from docker.errors import APIError
    from testcontainers.core.config import testcontainers_config

    try:
        client.images.pull(testcontainers_config.ryuk_image)
    except APIError:
        return False
    return True

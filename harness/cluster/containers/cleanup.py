"""Removes what runs created and nothing else: containers, networks and volumes by label, folders of secrets, and disks.

Frozen disks are thawed first, since a process that waits for its disk can't be ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka_chaos.faults.storage.devices.healing import disk_journals, remove_disks, thaw_disks
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

_MOST_PASSES = 20


@dataclass(frozen=True)
class Leftover:
    """What is left of one run: how many `things` (containers, networks, volumes and disks), whether the cluster was
    `kept` on purpose, and whether the process that owns the run is `alive`."""

    run_id: str
    things: int
    kept: bool
    alive: bool


def remove_run(client: DockerClient, run_id: str) -> None:
    """Remove everything labelled with `run_id`, except what the engine refuses to remove.

    Repeats until nothing is found, at most `_MOST_PASSES` times: the engine may still carry out a create call that was
    interrupted. A signal that arrives meanwhile is held back until everything is removed.
    """
    with signals_held_back():
        thaw_disks(run_id)
        for _ in range(_MOST_PASSES):
            run_filter = {"label": f"{RUN}={run_id}"}
            containers = client.containers.list(all=True, filters=run_filter, ignore_removed=True)
            if containers:
                with ThreadPoolExecutor(max_workers=len(containers)) as threads:
                    list(threads.map(_remove_container, containers))
            networks = client.networks.list(filters=run_filter)
            for network in networks:
                with refusals_ignored():
                    network.reload()
                    # A network can't be removed while a user's container is in it.
                    for container in network.attrs.get("Containers") or ():
                        network.disconnect(container, force=True)
            networks_and_volumes = [*networks, *client.volumes.list(filters=run_filter)]
            for thing in networks_and_volumes:
                with refusals_ignored():
                    thing.remove()
            if not containers and not networks_and_volumes:
                break
        remove_disks(run_id)
        remove_secrets(run_id)


def remove_dead_runs_with_disks(client: DockerClient) -> None:
    """Remove all that is left of dead runs with disks: a disk that stays frozen might stall the whole machine."""
    for run_id in _dead_runs_with_disks():
        remove_run(client, run_id)


def thaw_disks_of_dead_runs() -> None:
    """Thaw the disks of dead runs, which needs no Docker engine."""
    for run_id in _dead_runs_with_disks():
        thaw_disks(run_id)


def _dead_runs_with_disks() -> list[str]:
    """The ids of the runs that recorded disks, whose owner is dead, and that were not kept on purpose."""
    return [run.run_id for run in disk_journals() if KEEP not in run.labels and not owner_is_alive(run.labels)]


def leftovers(client: DockerClient) -> list[Leftover]:
    """What each run has left on this engine or as disks of this machine, in the order of the runs' ids."""
    by_run: dict[str, list[dict[str, str]]] = {}
    for labels in _labels_of_everything(client):
        by_run.setdefault(labels[RUN], []).append(labels)
    return [
        Leftover(run_id, len(labels), any(KEEP in entry for entry in labels), any(map(owner_is_alive, labels)))
        for run_id, labels in sorted(by_run.items())
    ]


def clean(client: DockerClient, *, kept: bool = False) -> list[Leftover]:
    """Remove what dead runs have left; with `kept`, also clusters that were kept on purpose (`--keep`).

    Returns what was removed of each run, without what the engine refused to remove.
    """
    dead = [leftover for leftover in leftovers(client) if not leftover.alive and (kept or not leftover.kept)]
    for leftover in dead:
        remove_run(client, leftover.run_id)
    left = {leftover.run_id: leftover.things for leftover in leftovers(client)}
    remove_abandoned_secrets(in_use=left)
    removed = (replace(leftover, things=leftover.things - left.get(leftover.run_id, 0)) for leftover in dead)
    return [leftover for leftover in removed if leftover.things]


def _remove_container(container: Any) -> None:
    with refusals_ignored():
        container.remove(force=True, v=True)


@contextlib.contextmanager
def refusals_ignored() -> Iterator[None]:
    """Suppress the engine's errors about objects that are gone, being removed, stopped, zombies or still in use."""
    from docker.errors import APIError, NotFound

    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        # 403: a network in use; 409: other conflicts; "is zombie": killed, which a busy engine has not noticed for 10 s
        if error.status_code not in (403, 409) and "is zombie" not in str(error.explanation):
            raise


def _labels_of_everything(client: DockerClient) -> Iterator[dict[str, str]]:
    """The labels of each container, network, volume and disk, of any run."""
    any_run = {"label": RUN}
    for container in client.containers.list(all=True, filters=any_run, ignore_removed=True):
        yield container.labels
    for thing in (*client.networks.list(filters=any_run), *client.volumes.list(filters=any_run)):
        yield thing.attrs["Labels"]
    for recorded in disk_journals():
        yield from [dict(recorded.labels)] * len(recorded.disks)


def set_up_reaper(client: DockerClient, *, keep: bool) -> bool:
    """Start Testcontainers' reaper, or disable it if the cluster may be kept (`keep`); returns whether it was started.

    The reaper removes the containers even if the harness is killed by SIGKILL. Without the reaper's image it is
    disabled, too: `kafka-chaos clean` can still remove the containers by their labels.
    """
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import Reaper

    has_image = bool(client.images.list(name=testcontainers_config.ryuk_image))
    is_used = has_image and not keep and not testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = not is_used
    if is_used:
        # Started now: nodes that start at the same time would each start a reaper.
        Reaper.get_instance()
    return is_used


def try_to_pull_reaper(client: DockerClient) -> bool:
    """Pull the reaper's image for later runs; returns False if no image registry answers."""
    from docker.errors import APIError
    from testcontainers.core.config import testcontainers_config

    try:
        client.images.pull(testcontainers_config.ryuk_image)
    except APIError:
        return False
    return True

"""Testcontainers' reaper: used if its image is available.

The reaper removes a session's containers even if the harness itself is killed with SIGKILL. Its image is not available
everywhere; then labels and `kafka-chaos clean` do the same. The setup tries to get the image once, a run never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient


def choose_reaper(client: DockerClient, *, keep: bool) -> bool:
    """Switch the reaper on or off for this process; True when it is used. A kept cluster must not be reaped."""
    from docker.errors import ImageNotFound
    from testcontainers.core.config import testcontainers_config

    try:
        client.images.get(testcontainers_config.ryuk_image)
        present = True
    except ImageNotFound:
        present = False
    use = present and not keep and not testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = not use
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

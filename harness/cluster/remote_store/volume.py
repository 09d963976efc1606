"""Makes the volume that the brokers of a cluster share as their remote store, and from which they load its plugin."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.contract.command.files import appearing_whole, cache_home
from kafka_chaos.faults.storage.remote_store import REMOTE_STORE
from kafka_chaos.harness.clients.fetching import compile_java
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import copy_dependencies, ensure_image

_SOURCES = Path(__file__).parent
_PLUGIN, _DEPENDENCIES = "RemoteStore.java", "plugin.xml"


def make_volume(name: str, labels: Mapping[str, str], brokers: int) -> None:
    """Make a volume with the plugin, and folders for segments, faults, and what faults hit. `brokers`: their number."""
    classes = compiled_plugin()
    client = docker_client()
    client.volumes.create(name, labels=dict(labels))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(classes, "classes")
        for folder_name in ("segments", "faults", "affected"):
            folder = tarfile.TarInfo(folder_name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for broker in range(1, brokers + 1):
            archive.addfile(tarfile.TarInfo(f"affected/{broker}"))
    # The container is never started: the engine mounts the volume even when it only copies files into a container.
    container = client.containers.create(
        ensure_image(), "true", labels=dict(labels), volumes={name: {"bind": REMOTE_STORE, "mode": "rw"}}
    )
    try:
        container.put_archive(REMOTE_STORE, content.getvalue())
    finally:
        container.remove()


def compiled_plugin() -> Path:
    """The folder with the plugin's classes, which are compiled only once per user."""
    digest = hashlib.sha256(b"".join((_SOURCES / name).read_bytes() for name in (_PLUGIN, _DEPENDENCIES)))
    folder = cache_home() / f"remote-store-{digest.hexdigest()[:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with appearing_whole(folder) as fresh:
            fresh.mkdir()
            copy_dependencies(_SOURCES / _DEPENDENCIES, fresh / "jars", {})
            compile_java([_SOURCES / _PLUGIN], fresh / "jars", fresh / "classes")
    return folder / "classes"

"""Plants a truncation bug into running brokers, by an agent that their JVMs load (`Plant.java`)."""

import os
import shutil
import signal
import socket
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import Event, PhaseStarted, RunStarted

SOURCE = Path(__file__).with_name("Plant.java")
ASM = "java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
MANIFEST = "Agent-Class: Plant\nCan-Retransform-Classes: true\nCan-Redefine-Classes: true\n"


@cache
def agent() -> bytes:
    """The agent's jar."""
    folder = Path(mkdtemp(prefix="kafka-chaos-plant-"))
    try:
        manifest, jar, classes = folder / "manifest", folder / "plant.jar", folder / "classes"
        manifest.write_text(MANIFEST)
        subprocess.run(["javac", "--add-exports", ASM, "-d", str(classes), str(SOURCE)], check=True)
        subprocess.run(["jar", "cfm", str(jar), str(manifest), "-C", str(classes), "."], check=True)
        return jar.read_bytes()
    finally:
        shutil.rmtree(folder)


def attach(container: str, argument: str) -> None:
    """Let the JVM that is a container's process load the agent; raises `OSError` if it does not."""
    command = ["docker", "inspect", "--format", "{{.State.Pid}}", container]
    pid = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = [line.split()[1:] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "NSpid" in line]
    inside = names[0][-1]
    root = Path(f"/proc/{pid}/root/tmp")
    (root / "plant.jar").write_bytes(agent())
    asked, answers = root / f".attach_pid{inside}", root / f".java_pid{inside}"
    asked.touch()
    os.kill(pid, signal.SIGQUIT)
    wait_until(answers.exists, f"the JVM of {container} to listen", timeout=20)
    asked.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(answers))
        parts = ("1", "load", "instrument", "false", f"/tmp/plant.jar={argument}")
        connection.sendall(b"".join(part.encode() + b"\0" for part in parts))
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    if answer.split() not in (["0"], ["0", "return", "code:", "0"]):
        raise OSError(f"{container}: the JVM answers {answer!r} to the agent {argument}")


class Planting:
    """A listener of a run: once a phase's topics are there, the agents go into the brokers. `agents`: by phase and
    broker their arguments."""

    def __init__(self, agents: dict[str, dict[int, str]]) -> None:
        self._agents = agents
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run_id = event.run_id
        if isinstance(event, PhaseStarted):
            for broker, argument in self._agents.get(event.phase, {}).items():
                attach(self.container(broker), argument)

    def container(self, broker: int) -> str:
        """The name of a broker's container."""
        return f"kafka-chaos-{self._run_id}-broker-{broker}"

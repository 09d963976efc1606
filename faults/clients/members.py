"""Fault kinds that end or freeze the processes of clients, or reset clients' connections."""

import gzip
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.faults.cluster import CLIENT_PORT, NETWORK_PORT, ClusterControl, NodeControl, shell_of
from kafka_chaos.faults.fault import DOWN, FROZEN, Appearance, Fault, Pattern, Proof
from kafka_chaos.faults.machine import engine_elsewhere

# With these arguments, `ss` lists the connections of clients.
_SS_ARGUMENTS = ("-tnH", "state", "established", f"( sport = :{CLIENT_PORT} or sport = :{NETWORK_PORT} )")
_KERNEL_OPTION = "CONFIG_INET_DIAG_DESTROY"  # without it, `ss -K` resets no connection
_KERNEL_CONFIG = Path("/proc/config.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKill(Fault):
    """Kill clients (SIGKILL), whatever they are doing; at the fault's end, new ones take their places, with the same
    `client.id`. Proof: each client ran, and SIGKILL ended it."""

    kind: ClassVar[str] = "client-kill"
    holds: ClassVar[str] = DOWN
    hits_clients: ClassVar[bool] = True
    crashes_members: ClassVar[bool] = True
    # The model expects nothing of brokers: a killed member counts among the `crashes` of its lane's group instead.
    appearance: ClassVar[Appearance] = Appearance("#a13a6a", "#ec92b8", Pattern.CROSSES)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        state = node.state()
        if state["Running"]:
            self._noted(cluster)[node.name] = state["Pid"]
            node.kill()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = node.state()
        evidence = {key: state[key] for key in ("Pid", "ExitCode")}
        if node.name not in self._noted(cluster):
            return Proof(False, evidence, "its process had ended before")
        if state["Running"]:
            return Proof(False, evidence, "its process still runs")
        if state["ExitCode"] != -signal.SIGKILL:
            return Proof(False, evidence, f"it ended with {state['ExitCode']} instead of SIGKILL")
        return Proof(True, evidence)

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Which process ended, and by which signal."""
        return f"process {evidence['Pid']} ended by {signal.Signals(-int(evidence['ExitCode'])).name}"


# A group's key `freezes` only keeps a member from polling. Here its whole process stands still: it sends no heartbeats
# and no requests, and its own time-outs don't expire. Thawed, it continues as if nothing had happened.
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(Fault):
    """Freeze the processes of clients (SIGSTOP), and thaw them at the fault's end. Proof: the kernel reports each
    process as stopped."""

    kind: ClassVar[str] = "client-pause"
    in_words: ClassVar[str] = "process {Pid}: {State}"
    holds: ClassVar[str] = FROZEN
    hits_clients: ClassVar[bool] = True
    # The model expects nothing: any client may be slow, and any member may be removed without noticing.
    appearance: ClassVar[Appearance] = Appearance("#6b6a1f", "#c9c76a", Pattern.DIAGONALS)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        if node.is_running():
            node.pause()

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        state = node.state()
        evidence = {key: state.get(key) for key in ("Pid", "State")}
        if not state["Running"]:
            return Proof(False, evidence, "its process has ended")
        return Proof(bool(state["Paused"]), evidence, f"the kernel reports {state.get('State')}")

    def _heal(self, cluster: ClusterControl, node: NodeControl) -> None:
        node.unpause()


# The broker keeps running and leading, and handles the requests that it has read. Clients that wait for an answer learn
# nothing, connect again, and repeat their requests if they may.
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReset(Fault):
    """Reset every connection of clients to the targets once (TCP RST, to both sides); data on its way is lost. If the
    container engine relays connections, clients see them closed instead. Clients may connect again at once, so the
    fault needs no duration. Proof: the number of connections, none of which is left."""

    kind: ClassVar[str] = "connection-reset"
    only_brokers: ClassVar[bool] = True
    avoids_links: ClassVar[bool] = True
    # Like a partition, a reset may lose requests and answers.
    counts_as: ClassVar[str] = "partition"
    appearance: ClassVar[Appearance] = Appearance("#8a6100", "#e3b64e", Pattern.CROSSES)

    @staticmethod
    def unavailable() -> str | None:
        """Why the kernel can't reset connections of other processes; None if it can, or if this can't be known."""
        if engine_elsewhere() is not None or not _KERNEL_CONFIG.is_file():
            return None
        with gzip.open(_KERNEL_CONFIG, "rt", encoding="utf-8", errors="replace") as lines:
            if any(line.startswith(f"{_KERNEL_OPTION}=") for line in lines):
                return None
        return f"the kernel can't reset connections of other processes: expected a kernel with {_KERNEL_OPTION}"

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        state, noted = node.state(), self._noted(cluster)
        if node.name in noted or not state["Running"] or state["Paused"]:
            return
        # One script lists and resets the connections (`-K`). Between two scripts, more new connections could begin.
        arguments = shlex.join(_SS_ARGUMENTS)
        script = f"ss {arguments} && ss -K {arguments} >/dev/null"
        noted[node.name] = _peers(shell_of(node).must_execute("sh", "-c", script))

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        before = self._noted(cluster).get(node.name)
        if before is None:
            return Proof(False, {}, "its process did not run")
        if not before:
            return Proof(False, {"connections": 0}, "no client was connected")
        state = node.state()
        is_up = state["Running"] and not state["Paused"]
        left = before & _peers(shell_of(node).must_execute("ss", *_SS_ARGUMENTS)) if is_up else frozenset()
        evidence = {"connections": len(before - left)}
        return Proof(not left, evidence, f"{len(left)} of {len(before)} connections are still open" if left else "")

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """How many connections were reset."""
        return f"{counted(evidence['connections'], 'connection')} of clients reset"


def _peers(listing: str) -> frozenset[str]:
    """The addresses of the connected clients in a listing of `ss`."""
    return frozenset(line.split()[3] for line in listing.splitlines() if line.strip())

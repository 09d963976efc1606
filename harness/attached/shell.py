"""Runs one command of a node on this machine, within its time.

Guarantee: a command that takes longer is ended, with the processes that it started. Messages show its key and the end
of its output, never its text, which may hold credentials.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from kafka_chaos.harness.errors import ClusterFailure

_SHOWN = 200


def run_command(what: str, text: str, *, timeout: float, environment: Mapping[str, str]) -> str:
    """Let `sh -c` run a command: its output. `what` names it in messages, such as `broker-1: kill`.

    Raises `ClusterFailure` if it ends with another exit code than 0, or does not end within `timeout` seconds.
    """
    # A session of its own: Ctrl-C is for the run, which still has to heal, and a time-out ends whatever it started.
    process = subprocess.Popen(
        ["/bin/sh", "-c", text],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ClusterFailure(f"{what}: the command did not end within {timeout:g} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    said = output.decode(errors="replace").strip()
    if process.returncode != 0:
        last = said.rpartition("\n")[2][-_SHOWN:]
        raise ClusterFailure(f"{what}: the command ended with exit code {process.returncode}: {last or 'no output'}")
    return said

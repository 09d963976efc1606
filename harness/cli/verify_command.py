"""`kafka-chaos verify`: completes the histories that a crash left, then calls the verification's own command."""

from pathlib import Path
from typing import Any

import click

from kafka_chaos.harness.report.listeners.waiting import Waiting
from kafka_chaos.harness.workload.history.recovery import recover
from kafka_chaos.reference_model.protocol.known_defects import require_known
from kafka_chaos.verification.cli import verify_command as verification_command
from kafka_chaos.verification.inputs.storage import is_remote


def _recover_and_verify(**options: Any) -> None:
    require_known(options["accept_known"], "--accept-known")
    for folder in options["run_dirs"]:
        # Runs write only to local disks, so no crash leaves incomplete histories in a remote directory.
        rows = 0 if is_remote(folder) else recover(Path(folder))
        if rows:
            click.echo(f"{folder}: its harness died; {rows} records that may have been sent count as info", err=True)
    assert verification_command.callback is not None
    with Waiting("verifying with Spark"):
        verification_command.callback(**options)


verify_command = click.Command(
    "verify", params=verification_command.params, callback=_recover_and_verify, help=verification_command.help
)

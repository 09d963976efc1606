"""Commands as their entry points run them."""

import sys
from unittest.mock import patch

import click
from click.testing import CliRunner, Result

from kafka_chaos.contract.command.command_line import invoke, run_and_exit


def ended(command: click.Command, *arguments: object) -> Result:
    """The output of a command, and the exit code that a user sees."""
    name = str(command.name)
    entry_point = click.Command(name, callback=lambda: run_and_exit(lambda: invoke(command, name)))
    with patch.object(sys, "argv", [name, *map(str, arguments)]):
        return CliRunner().invoke(entry_point, [])

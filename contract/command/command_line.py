"""How every command of this project ends, and the options, tables and console that commands share.

A command that fails ends with one line on standard error, and the exit code that belongs to the cause. Guarantee: no
error ends it with exit code 1, which means a violation and nothing else. For a bug of this project the line names a
file with the traceback; `--debug` prints the traceback instead.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kafka_chaos.contract.command import errors
from kafka_chaos.contract.command.files import package_toml

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).resolve().parents[2]  # the folder that has all packages, and experiments/
DEBUG = "--debug"
QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")

_WIDTH_WITHOUT_TERMINAL = 150  # characters, so that the widest table fits
_REMEDIES_OF_MACHINE, _REMEDIES_OF_PATH = (
    {getattr(errno, name): remedy for name, remedy in package_toml(__package__, "remedies.toml")[of].items()}
    for of in ("machine", "path")
)
_ERRORS_OF_ENGINE = {"docker.errors": "DockerException", "requests.exceptions": "RequestException"}
_DISK_ERRORS = {"No space left on device": errno.ENOSPC, "Read-only file system": errno.EROFS}


def invoke(command: click.Command, prog_name: str) -> int:
    """Run a command with the arguments of this process; returns 0, or click's own exit code, as for `--help`.

    Unlike `command.main`, it raises what the command raises: errors, even a broken pipe, and a verdict's SystemExit.
    """
    if f"_{prog_name.upper()}_COMPLETE".replace("-", "_") in os.environ:  # Only `main` completes words for a shell.
        command.main(prog_name=prog_name)
    try:
        with command.make_context(prog_name, sys.argv[1:]) as context:
            command.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return errors.ExitCode.CONFORMS


def run_and_exit(command: Callable[[], int]) -> NoReturn:
    """Call `command`. Exit with the code that it returns, or with the code of the error that it raises."""
    # A stream that the caller has closed is None.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        code = _exit_code_of(command)
    except KeyboardInterrupt:
        code = _say("interrupted", errors.ExitCode.INTERRUPTED)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # The result is known: a signal while Python and Spark shut down must not change it.
    atexit.register(_ignore_signals)
    sys.exit(code)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _exit_code_of(command: Callable[[], int]) -> int:
    """Call the command; returns its exit code, or prints the line of its error and returns the error's exit code."""
    try:
        try:
            code: object = command()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        if code is None or isinstance(code, int):
            return code or errors.ExitCode.CONFORMS
        raise RuntimeError(f"ended with {code!r}, which is not an exit code")  # a bug, which the last clause reports
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        click.echo(errors.shortened(text.getvalue().rstrip("\n")), err=True)
        return errors.ExitCode.USAGE
    except (click.exceptions.Abort, KeyboardInterrupt, errors.Interrupted) as error:
        return _say(str(error) or "interrupted", errors.ExitCode.INTERRUPTED)
    except BaseException as error:  # noqa: BLE001 - otherwise Python would end with 1
        # If this flush fails, discard the buffer: Python flushes it again at its exit, and would set another exit code.
        try:
            sys.stdout.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        failure = failure_of(error)
        if _debugging():
            traceback.print_exception(error)
        if failure is not None:
            return _say(str(failure), failure.exit_code)
        return _say(f"internal error: {bug_report(error)}", errors.ExitCode.BUG)


def failure_of(error: BaseException) -> errors.KafkaChaosError | None:
    """The failure to report if an error is one, or is due to the machine, the Docker engine or a path; else None."""
    if isinstance(error, errors.KafkaChaosError):
        return error
    # Imports nothing, since most commands need no engine.
    kinds = tuple(getattr(sys.modules[name], kind) for name, kind in _ERRORS_OF_ENGINE.items() if name in sys.modules)
    if isinstance(error, kinds):
        return errors.EnvironmentFailure(
            f"the Docker engine failed: {error}; `kafka-chaos doctor` says what this machine lacks"
        )
    if isinstance(error, MemoryError):
        return errors.EnvironmentFailure("no memory is left: end other programs, or use a smaller load")
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("kafka_chaos"):
        return errors.EnvironmentFailure(
            f"the Python package {error.name} is not installed: reinstall kafka-chaos with pip"
        )
    number = error.errno if isinstance(error, OSError) else None
    if number not in _REMEDIES_OF_MACHINE and number not in _REMEDIES_OF_PATH:
        # Libraries such as Spark quote the system's error inside their own.
        number = next((code for text, code in _DISK_ERRORS.items() if text in str(error)), None)
    if number is None:
        return None
    path = getattr(error, "filename", None)
    prefix = "" if path is None else f"{os.fsdecode(path) if isinstance(path, bytes) else path}: "
    reason = os.strerror(number)
    if number in _REMEDIES_OF_MACHINE:
        return errors.EnvironmentFailure(f"{prefix}{reason}: {_REMEDIES_OF_MACHINE[number]}")
    # Without a path, the error is not about what the user has named.
    return errors.UsageFailure(f"{prefix}{reason}: {_REMEDIES_OF_PATH[number]}") if prefix else None


def console(*, highlight: bool = True) -> Console:
    """The console on standard output; if that is not a terminal but a file or a pipe, wide enough for every table."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process with 1, which means a violation.
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    terminal = Terminal(highlight=highlight)
    return terminal if terminal.is_terminal else Terminal(width=_WIDTH_WITHOUT_TERMINAL, highlight=highlight)


def plain_table(
    *headings: str, right: Collection[str] = (), wrapped: str | None = None, title: str | None = None
) -> Table:
    """A table without borders, with a column for each heading; columns in `right` are aligned to the right.

    `wrapped`: the only column whose text is wrapped if the terminal is narrow; None: the text of every column is.
    """
    from rich.table import Column, Table

    columns = [
        Column(heading, justify="right" if heading in right else "left", no_wrap=wrapped not in (None, heading))
        for heading in headings
    ]
    for column in columns:
        column.overflow = "ellipsis" if column.no_wrap else "fold"
    return Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))


def file_option(name: str, help: str) -> Callable[[F], F]:
    """A click option that takes the path of a file."""
    return click.option(name, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=help)


class ExperimentPath(click.Path):
    """The path of an experiment. If a path `experiments/…` does not exist, the file comes from this package."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the argument as `click.Path` does, or the path of the shipped file that it names."""
        shipped = PACKAGE / value
        is_shipped = str(value).startswith("experiments/") and not os.path.exists(value) and shipped.exists()
        return super().convert(shipped if is_shipped else value, param, ctx)


def _debugging() -> bool:
    return DEBUG in sys.argv[1:]


def _say(message: str, code: int) -> int:
    """Print the one line with which a command ends; returns the exit code `code`."""
    with contextlib.suppress(OSError):
        click.echo(f"kafka-chaos: {message}", err=True)
    return code


def bug_report(error: BaseException) -> str:
    """A line with the error of a bug and the path of its traceback, which this call writes to a file."""
    kind, line = type(error).__name__, errors.first_line(error)
    return f"{kind if line == kind else f'{kind}: {line[:200]}'}; {_write_traceback(error)}"


def _write_traceback(error: BaseException) -> str:
    """Write the traceback to a file, and return the words that say where it is."""
    if _debugging():
        return "the traceback is above"
    try:
        number, path = tempfile.mkstemp(prefix="kafka-chaos-", suffix=".traceback")
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return f"{DEBUG} prints the traceback"
    return f"the traceback is in {path}"

"""Fetches client libraries with the package managers of their languages, once, into a folder for each version.

Guarantee: a folder is complete, or does not exist. Raises `UsageFailure` if the registry lacks a version,
`EnvironmentFailure` if a program is missing or no registry answers, `BuildFailure` if an adapter does not compile.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.files import appearing_whole, package_toml
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.lane.share import SHARE_GROUPS_SINCE

ADAPTERS = Path(__file__).parent / "adapters"
_NO_SUCH_VERSION = re.compile(
    r"Could not find a version that satisfies .*\(from versions: (?P<versions>(?!none).*)\)"
    r"|Could not find artifact|ETARGET|unknown revision|No match(?:ing version|  *found for version)"
)
"""What pip says if a version does not exist, with the existing `versions`, if any; then what Maven, npm and Go say."""
_MAX_QUOTED_CHARACTERS, _MAX_QUOTED_VERSIONS = 2_000, 3  # a message quotes the end of an output, the newest versions
_ANSWER_TIMEOUT_S = 45  # For a registry's answer: Maven itself takes some 20 s.
_MANAGERS = package_toml(__package__, "managers.toml")
_REQUIREMENTS: Mapping[str, str] = _MANAGERS.pop("programs")
"""What to install for each program."""
_INSTALL_FOLDERS = {"go": "/usr/local/go/bin"}
"""By program, the folder to which its installer writes, and which PATH may lack."""
_SHARE_SOURCE = "Sharer.java"
"""The source file of the Java adapter that compiles only with a library that has share consumers."""


@dataclass(frozen=True, kw_only=True)
class Manager:
    """The package manager of a language: commands in managers.toml, whose words in braces `fill_placeholders` replaces.

    `asks`: the command that asks the registry for a version. `fetches`: the commands that fill a folder with the
    package. `builds`: the command that compiles the adapter; none for Java, where `compile_java` does it. `starts`: the
    command that starts the client; none for Python, where `python_client.py` does it. `needs`: programs to install.
    """

    asks: Sequence[str] = ()
    fetches: Sequence[Sequence[str]] = ()
    builds: Sequence[str] = ()
    starts: Sequence[str] = ()
    needs: Sequence[str] = ()


MANAGERS = {name: Manager(**commands) for name, commands in _MANAGERS.items()}


def fill_placeholders(
    command: Sequence[str], package: str = "", version: str = "0", folder: Path = Path(), name: str = ""
) -> list[str]:
    """A command of a `Manager`, with `{python}` replaced by this interpreter, and other words by these arguments.

    `{release}` becomes the version as pip takes it: 2.3 means the newest 2.3.x. `{tags}` becomes build tags of Go for
    this minor version and all before it, such as `v1_22`. Leave out `version` for a command without any of these words.
    """
    major, minor = (int(part) for part in [*version.split("."), "0"][:2])
    words = {"package": package, "version": version, "folder": folder, "name": name, "python": sys.executable}
    words["release"] = version + ("" if version.count(".") > 1 else ".*")
    words["tags"] = ",".join(f"v{major}_{number}" for number in range(minor + 1))
    return [word.format(**words) for word in command]


class BuildFailure(KafkaChaosError):
    """A source file of this package, such as an adapter, does not compile."""

    exit_code = ExitCode.BUG


def fetch(manager: Manager, package: str, version: str, folder: Path, sources: Sequence[str]) -> None:
    """Make a folder with a version of a package and an adapter, whose `sources` are compiled there."""
    for program in manager.needs:
        program_path(program)
    subject = f"{package.rpartition(':')[2]} {version}"  # Maven's packages are GROUP:ARTIFACT.
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with appearing_whole(folder) as fresh:
            fresh.mkdir()
            for source in sources:
                shutil.copy(ADAPTERS / source, fresh)
            for command in manager.fetches:
                _call(fill_placeholders(command, package, version, fresh), subject=subject, folder=fresh)
            if manager.builds:
                build = fill_placeholders(manager.builds, package, version)
                _call(build, subject=str(fresh), folder=fresh, is_build=True)
            elif java := [*fresh.glob("*.java")]:
                has_shares = release(version) >= release(SHARE_GROUPS_SINCE)
                compiled = [path for path in java if has_shares or path.name != _SHARE_SOURCE]
                compile_java(compiled, fresh / "jars", fresh / "classes")
    except OSError:
        # Another process was faster, and its folder is complete, too.
        if not folder.is_dir():
            raise


def compile_java(sources: Sequence[Path], jars: Path, classes: Path) -> None:
    """Compile with Eclipse's compiler from the folder `jars`, so that a JRE suffices. Raises `BuildFailure`."""
    (compiler,) = jars.glob("ecj-*.jar")
    path = os.pathsep.join(map(str, jars.glob("*.jar")))
    command = ["java", "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn", "-cp", path]
    _call([*command, "-d", str(classes), *map(str, sources)], subject=str(sources[0]), is_build=True)


def why_unanswered(client: str, command: Sequence[str]) -> str:
    """Ask a registry for a client's version; returns why no answer came, or "" if the registry has the version.

    Raises `UsageFailure` if there is no such version.
    """
    try:
        output = _run_and_return_failure(command, client, timeout=_ANSWER_TIMEOUT_S)
    except EnvironmentFailure as missing:
        return str(missing)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_ANSWER_TIMEOUT_S} s"
    return "" if output is None else f"{command[0]} said: {output.splitlines()[-1]}"


def _run_and_return_failure(
    command: Sequence[str], subject: str, folder: Path | None = None, timeout: float | None = None
) -> str | None:
    """Run a command; returns its output if it failed, else None. Raises `UsageFailure` if the version does not exist.

    `subject`: what the command fetches, asks for or compiles, in messages.
    """
    command = [program_path(command[0]), *command[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode == 0:
        return None
    output = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
    if missing := _NO_SUCH_VERSION.search(output):
        newest = (missing["versions"] or "").split(", ")[-_MAX_QUOTED_VERSIONS:]
        hint = f"; the newest are {', '.join(newest)}" if any(newest) else ""
        raise UsageFailure(f"{subject}: there is no such version{hint}")
    return output


def program_path(program: str) -> str:
    """The path of a program; raises `EnvironmentFailure` with what to install."""
    path = shutil.which(program) or shutil.which(program, path=_INSTALL_FOLDERS.get(program, ""))
    if path is None:
        requirement = _REQUIREMENTS.get(program, "it, or name it with its path")
        raise EnvironmentFailure(f"{program} is missing: install {requirement}")
    return path


def _call(command: Sequence[str], *, subject: str, folder: Path | None = None, is_build: bool = False) -> None:
    """Run a command that fetches, or compiles (`is_build`); if that fails, raise an error that ends with the output."""
    if (output := _run_and_return_failure(command, subject, folder)) is not None:
        end = output[-_MAX_QUOTED_CHARACTERS:]
        if is_build:
            raise BuildFailure(f"{subject} does not compile:\n{end}")
        raise EnvironmentFailure(f"{subject} could not be fetched: {command[0]} said:\n{end}")

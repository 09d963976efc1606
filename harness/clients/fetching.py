"""Fetches client libraries with the package managers of their languages, once, into a folder for each version.

Guarantee: a folder is complete or not there. A version that a registry does not have is a `UsageFailure`; a toolchain
that is missing, or a registry that does not answer, an `EnvironmentFailure`; an adapter that does not compile a
`BuildFailure`. Each has the tool's own words.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.files import appearing_whole, cache_home, toml_of
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.lane.share import FIRST_PRODUCTION

ADAPTERS = Path(__file__).parent / "adapters"
_NO_SUCH_VERSION = re.compile(
    r"Could not find a version that satisfies .*\(from versions: (?P<known>(?!none).*)\)"
    r"|Could not find artifact|ETARGET|unknown revision|No match(?:ing version|  *found for version)"
)
_SAID, _NEWEST = 2_000, 3
_ASKED_FOR = 45
"""Seconds that a registry is waited for. Maven alone takes some 20 s."""
_LISTED = toml_of(__package__, "managers.toml")
_INSTALL: Mapping[str, str] = _LISTED.pop("programs")
_ELSEWHERE = {"go": "/usr/local/go/bin"}
"""Where the installation of a program leaves it, if not in PATH."""


_OF_SHARES = "Sharer.java"
"""The source of the Java adapter that older clients, which have no share consumers, are not compiled with."""


@dataclass(frozen=True, kw_only=True)
class Manager:
    """The package manager of a language, as managers.toml describes it by its commands.

    `asks` asks the registry for a version of a package. `fetches` fill a folder with it, and `builds` compiles the
    adapter there; `compile_java` compiles one of Java. `starts` starts the client; without it, that is a program of
    Python. `needs`: the programs for all that. `filled` says what the words in braces stand for.
    """

    asks: Sequence[str] = ()
    fetches: Sequence[Sequence[str]] = ()
    builds: Sequence[str] = ()
    starts: Sequence[str] = ()
    needs: Sequence[str] = ()


MANAGERS = {name: Manager(**commands) for name, commands in _LISTED.items()}


def filled(
    command: Sequence[str], package: str = "", version: str = "0", folder: Path = Path(), name: str = ""
) -> list[str]:
    """A command of a `Manager`: `python` stands for this interpreter, and `name` for the client's.

    `release` is a version of pip's, and `tags` has a tag of Go's for the version and for each minor version before it,
    such as `v1_22`.
    """
    major, minor = (int(part) for part in [*version.split("."), "0"][:2])
    words = {"package": package, "version": version, "folder": folder, "name": name, "python": sys.executable}
    # `version` may be the beginning of one.
    words["release"] = version + ("" if version.count(".") > 1 else ".*")
    words["tags"] = ",".join(f"v{major}_{number}" for number in range(minor + 1))
    return [word.format(**words) for word in command]


class BuildFailure(KafkaChaosError):
    """A source file of this package, such as an adapter, does not compile."""

    exit_code = ExitCode.BUG


def folder_of(client: str, version: str, sources: Sequence[str]) -> Path:
    """The folder of a client in a version, and with these `sources` of its adapter."""
    digest = hashlib.sha256(b"".join((ADAPTERS / source).read_bytes() for source in sources)).hexdigest()[:8]
    return cache_home() / "clients" / f"{client}-{version}-{digest}"


def prepare(folder: Path, sources: Sequence[str], fill: Callable[[Path], None]) -> None:
    """Make the folder of a client, with its `sources`, and let `fill` add its library."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with appearing_whole(folder) as fresh:
            fresh.mkdir()
            for source in sources:
                shutil.copy(ADAPTERS / source, fresh)
            fill(fresh)
    except OSError:
        # Another process was faster, and its folder is complete, too.
        if not folder.is_dir():
            raise


def fetch(manager: Manager, package: str, version: str, folder: Path) -> None:
    """Fill a folder with a version of a package, and compile the adapter that is there."""
    for program in manager.needs:
        required(program)
    what = f"{package.rpartition(':')[2]} {version}"
    for command in manager.fetches:
        _call(filled(command, package, version, folder), what=what, folder=folder)
    if manager.builds:
        _call(filled(manager.builds, package, version), what=str(folder), folder=folder, compiles=True)
    elif sources := [*folder.glob("*.java")]:
        shares = release(version) >= release(FIRST_PRODUCTION)
        compiled = [path for path in sources if shares or path.name != _OF_SHARES]
        compile_java(compiled, folder / "jars", folder / "classes")


def compile_java(sources: Sequence[Path], jars: Path, classes: Path) -> None:
    """Compile with the folder `jars`, which has Eclipse's compiler: a JRE suffices. Raises `BuildFailure`."""
    (compiler,) = jars.glob("ecj-*.jar")
    path = os.pathsep.join(map(str, jars.glob("*.jar")))
    command = ["java", "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn", "-cp", path]
    _call([*command, "-d", str(classes), *map(str, sources)], what=str(sources[0]), compiles=True)


def no_answer(what: str, command: Sequence[str]) -> str:
    """Ask a registry for a version by this command; returns why there is no answer, or nothing if there is the version.

    Raises `UsageFailure` if there is no such version.
    """
    try:
        failure = _failure(command, what, timeout=_ASKED_FOR)
    except EnvironmentFailure as missing:
        return str(missing)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_ASKED_FOR} s"
    if failure is None:
        return ""
    return f"{command[0]} said: {failure.splitlines()[-1]}"


def _failure(command: Sequence[str], what: str, folder: Path | None = None, timeout: float | None = None) -> str | None:
    """Run a command; returns what it said if it failed. Raises `UsageFailure` where it said: no such version."""
    command = [required(command[0]), *command[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode == 0:
        return None
    said = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
    if missing := _NO_SUCH_VERSION.search(said):
        known = (missing["known"] or "").split(", ")[-_NEWEST:]
        raise UsageFailure(f"{what}: there is no such version" + f"; the newest are {', '.join(known)}" * any(known))
    return said


def required(program: str) -> str:
    """The path of a program; raises `EnvironmentFailure` with what to install."""
    found = shutil.which(program) or shutil.which(program, path=_ELSEWHERE.get(program, ""))
    if found is None:
        what = _INSTALL.get(program, "it, or name it with its path")
        raise EnvironmentFailure(f"{program} is missing: install {what}")
    return found


def _call(command: Sequence[str], *, what: str, folder: Path | None = None, compiles: bool = False) -> None:
    if (failure := _failure(command, what, folder)) is not None:
        if compiles:
            raise BuildFailure(f"{what} does not compile:\n{failure[-_SAID:]}")
        raise EnvironmentFailure(f"{what} could not be fetched: {command[0]} said:\n{failure[-_SAID:]}")

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
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.files import appearing_whole, cache_home
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
_NODE = "Node 20.15 or later with npm"
_INSTALL = {
    "mvn": "Maven 3.6 or later",
    "java": "a JRE 17 or later",
    "go": "Go 1.22 or later",
    "node": _NODE,
    "npm": _NODE,
}
"""The packages to install for each program."""
_ELSEWHERE = {"go": "/usr/local/go/bin"}
"""Where the installation of a program leaves it, if not in PATH."""


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


def of_python(package: str, version: str) -> str:
    """What pip calls a version of a package; `version` may be the beginning of one."""
    return f"{package}=={version}" + ("" if version.count(".") > 1 else ".*")


def by_pip(package: str, version: str, folder: Path) -> None:
    """Fill a folder with a virtual environment that has a package of Python."""
    wanted = of_python(package, version)
    environment = folder / "venv"
    _call([sys.executable, "-m", "venv", str(environment)], what="a virtual environment")
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([*pip, wanted], what=f"{package} {version}")


OF_SHARES = "Sharer.java"
"""The source of the Java adapter that older clients, which have no share consumers, are not compiled with."""


def by_maven(package: str, version: str, folder: Path) -> None:
    """Fill a folder with Kafka's Java client, whose `package` java-client.xml there names, and compile the adapter."""
    maven = required("mvn")
    # Before anything is fetched.
    required("java")
    jars = folder / "jars"
    command = [maven, "-q", "-B", "-f", str(folder / "java-client.xml"), "dependency:copy-dependencies"]
    _call(
        [*command, f"-DoutputDirectory={jars}", f"-Dkafka.version={version}"],
        what=f"{package.partition(':')[2]} {version}",
    )
    shares = release(version) >= release(FIRST_PRODUCTION)
    compile_java([path for path in folder.glob("*.java") if shares or path.name != OF_SHARES], jars, folder / "classes")


def compile_java(sources: Sequence[Path], jars: Path, classes: Path) -> None:
    """Compile with the folder `jars`, which has Eclipse's compiler: a JRE suffices. Raises `BuildFailure`."""
    (compiler,) = jars.glob("ecj-*.jar")
    path = os.pathsep.join(map(str, jars.glob("*.jar")))
    command = [required("java"), "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn", "-cp", path]
    _call([*command, "-d", str(classes), *map(str, sources)], what=str(sources[0]), compiles=True)


def by_go(module: str, version: str, folder: Path) -> None:
    """Fill a folder with a program of Go that uses this module.

    The build has a tag for the module's version and one for each minor version before it, such as `v1_22`.
    """
    go = required("go")
    major, minor = (int(part) for part in [*version.split("."), "0"][:2])
    tags = ",".join(f"v{major}_{number}" for number in range(minor + 1))
    _call([go, "mod", "init", "client"], what="go.mod", folder=folder)
    _call([go, "get", f"{module}@v{version}"], what=f"{module} {version}", folder=folder)
    _call([go, "mod", "tidy"], what=f"{module} {version}", folder=folder)
    _call([go, "build", "-tags", tags, "-o", "client", "."], what=str(folder), folder=folder, compiles=True)


def by_npm(package: str, version: str, folder: Path) -> None:
    """Fill a folder with a package of Node."""
    npm = required("npm")
    (folder / "package.json").write_text("{}\n")
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--loglevel=error"]
    _call([*command, f"{package}@{version}"], what=f"{package} {version}", folder=folder)


def no_answer(what: str, command: Sequence[str]) -> str:
    """Ask a registry for a version by this command; returns why there is no answer, or nothing if there is the version.

    Raises `UsageFailure` if there is no such version.
    """
    try:
        done = subprocess.run(
            [required(command[0]), *command[1:]], capture_output=True, text=True, check=False, timeout=_ASKED_FOR
        )
    except EnvironmentFailure as failure:
        return str(failure)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_ASKED_FOR} s"
    if done.returncode == 0:
        return ""
    said = (done.stdout + done.stderr).strip()
    if missing := _NO_SUCH_VERSION.search(said):
        raise UsageFailure(_no_such(what, missing))
    return f"{command[0]} said: {said.splitlines()[-1] if said else f'exit code {done.returncode}'}"


def _no_such(what: str, missing: re.Match[str]) -> str:
    known = (missing["known"] or "").split(", ")[-_NEWEST:]
    return f"{what}: there is no such version" + (f"; the newest are {', '.join(known)}" * any(known))


def required(program: str) -> str:
    """The path of a program; raises `EnvironmentFailure` with what to install."""
    found = shutil.which(program) or shutil.which(program, path=_ELSEWHERE.get(program, ""))
    if found is None:
        what = _INSTALL.get(program, "it, or name it with its path")
        raise EnvironmentFailure(f"{program} is missing: install {what}")
    return found


def _call(command: list[str], *, what: str, folder: Path | None = None, compiles: bool = False) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = (done.stdout + done.stderr).strip()
    if compiles:
        raise BuildFailure(f"{what} does not compile:\n{said[-_SAID:]}")
    if missing := _NO_SUCH_VERSION.search(said):
        raise UsageFailure(_no_such(what, missing))
    raise EnvironmentFailure(f"{what} could not be fetched: {command[0]} said:\n{said[-_SAID:]}")

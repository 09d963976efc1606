"""From a machine without an engine, images and caches to the demo's verdict: `make demo` in a fresh clone.

    .venv/bin/python benchmarks/bare_machine.py --remove-the-engine [--rounds 3] [--engine-of CHECKOUT] [--logs FOLDER]
    .venv/bin/python benchmarks/bare_machine.py --wheel

With --wheel, from an empty folder to the first prediction of who installs this checkout's wheel, without Spark and with
it, with pip's cache empty and filled. It needs nothing but pip.

Nobody else can use containers meanwhile. As root on Debian, before each round: the engine that `docker/set-up` of
CHECKOUT started is stopped, the Debian packages that set-up has installed for runs are purged (by apt's history), and
apt's archives are emptied. The folder of the engine is put aside and put back in the end. pip and Maven get folders of
their own. What the machine had before set-up, such as Java, stays. Each line of output goes to a file for each round,
with its seconds: they tell what waits for what. Set-up starts the engine again afterwards.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent
HISTORY = Path("/var/log/apt/history.log")
OF_SET_UP = "--force-unsafe-io"
"""Part of apt's command line when set-up installs something."""
ENGINE = Path("/var/lib/docker")
ASIDE = Path("/var/lib/docker.aside")
LONGEST = 900
"""Seconds for a round."""


def installed_by_set_up(history: str) -> list[str]:
    """The packages that set-up has installed for runs, those that came along included."""
    found: list[str] = []
    for entry in history.split("\n\n"):
        if OF_SET_UP in entry and "chromium" not in entry:
            for line in re.findall("^Install: (.*)$", entry, re.MULTILINE):
                found += re.findall(r"([a-z0-9.+-]+):\w+ \(", line)
    return list(dict.fromkeys(found))


def make_bare(checkout: Path) -> None:
    """Take away what set-up has brought."""
    subprocess.run([checkout / "docker" / "set-up", "stop-engine"], check=True)
    if subprocess.run(["pidof", "dockerd"], check=False, stdout=subprocess.DEVNULL).returncode == 0:
        sys.exit(
            f"an engine runs that set-up of {checkout} did not start: stop it, or name its checkout by --engine-of"
        )
    # Purging the engine's package empties its folder.
    put_engine_folder_aside()
    there = [one for one in installed_by_set_up(HISTORY.read_text()) if _is_installed(one)]
    if there:
        subprocess.run(["apt-get", "purge", "-y", "-qq", *there], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["apt-get", "clean"], check=True)


def _is_installed(package: str) -> bool:
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True, check=False
    )
    return asked.stdout.endswith(" installed")


def put_engine_folder_aside() -> None:
    """Put the engine's folder aside; one that a round has made is removed."""
    if not ENGINE.exists():
        return
    if ASIDE.exists():
        shutil.rmtree(ENGINE)
    else:
        ENGINE.rename(ASIDE)


def measured(folder: Path, log: Path) -> float:
    """Seconds of `make demo` in a new clone with empty caches; each line goes to `log` with its seconds."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PIP_CACHE_DIR"},
        "XDG_CACHE_HOME": str(folder / "cache"),
        "MAVEN_OPTS": f"-Dmaven.repo.local={folder / 'm2'}",
    }
    start = time.monotonic()
    command = ["timeout", "--kill-after=30", str(LONGEST), "make", "demo"]
    process = subprocess.Popen(
        command, cwd=clone, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        with log.open("w", encoding="utf-8") as file:
            for line in process.stdout:
                file.write(f"{time.monotonic() - start:6.1f} {line}")
                file.flush()
                if line.rstrip().endswith("report.html"):
                    break
        seconds = time.monotonic() - start
        if (code := process.wait()) != 0:
            sys.exit(f"make demo ended with {code}: see {log}")
    finally:
        subprocess.run([clone / "docker" / "set-up", "stop-engine"], check=True)
    return seconds


def first_predictions() -> None:
    """Print the seconds from `python -m venv` to the end of the first prediction, and the size of the environment."""
    predict = ["kafka-chaos", "predict", "--acks", "1", "--faults", "pause,kill"]
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-wheel-") as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        for extra in ("", "[spark]"):
            for cache in ("empty", "filled"):
                place = Path(folder, f"environment{extra}-{cache}")
                environment = {**os.environ, "PIP_CACHE_DIR": f"{folder}/pip{extra}", "KAFKA_CHAOS_CACHE": str(place)}
                begun = time.monotonic()
                subprocess.run([sys.executable, "-m", "venv", place], check=True)
                subprocess.run([place / "bin/pip", "install", "-q", f"{wheel}{extra}"], env=environment, check=True)
                command = [place / "bin" / predict[0], *predict[1:]]
                subprocess.run(command, cwd=place, env=environment, stdout=subprocess.DEVNULL, check=True)
                seconds = time.monotonic() - begun
                size = subprocess.run(["du", "-sm", place], capture_output=True, text=True, check=True).stdout.split()[
                    0
                ]
                print(f"{wheel.name}{extra}, cache {cache}: {seconds:.0f} s, {size} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remove-the-engine", action="store_true")
    parser.add_argument("--wheel", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine-of", type=Path, default=ROOT, metavar="CHECKOUT")
    parser.add_argument("--logs", type=Path, default=ROOT / "runs", metavar="FOLDER")
    chosen = parser.parse_args()
    if chosen.wheel:
        first_predictions()
        return
    if not chosen.remove_the_engine:
        sys.exit("this takes the engine away from everybody on the machine: expected --remove-the-engine")
    if os.geteuid() != 0 or not HISTORY.exists():
        sys.exit("expected root on Debian, with apt's history")
    with suppress(FileNotFoundError):
        if running := subprocess.run(
            ["docker", "ps", "-q"], capture_output=True, text=True, check=False
        ).stdout.split():
            sys.exit(f"{len(running)} containers run: their owners need the engine")
    chosen.logs.mkdir(parents=True, exist_ok=True)
    try:
        for number in range(1, chosen.rounds + 1):
            make_bare(chosen.engine_of)
            with tempfile.TemporaryDirectory(prefix="kafka-chaos-bare-") as folder:
                seconds = measured(Path(folder), chosen.logs / f"bare-machine-{number}.log")
            print(f"round {number}: {seconds // 60:.0f} min {seconds % 60:.0f} s", flush=True)
    finally:
        if ASIDE.exists():
            shutil.rmtree(ENGINE, ignore_errors=True)
            ASIDE.rename(ENGINE)


if __name__ == "__main__":
    main()

"""Packages built as wheels and installed in environments of their own."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


def must(*command: str, cwd: Path | None = None) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of the project in `source`, built without the network."""
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    must(sys.executable, "-m", "pip", "wheel", *offline, str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


def empty_venv(folder: Path, *options: str) -> str:
    must(sys.executable, "-m", "venv", *options, str(folder))
    return str(folder / "bin" / "python")


def venv_with(folder: Path, *wheels: Path) -> tuple[str, Path]:
    """The Python and the site-packages of an environment with these wheels; third-party packages are this one's."""
    python = empty_venv(folder, "--without-pip")
    site = Path(must(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # The .pth files of this environment, such as that of an editable install, are not followed from there.
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for wheel in wheels:
        install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
        must(sys.executable, *install)
    return python, site

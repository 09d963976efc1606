"""No checkout is released whose tag, version and changelog differ."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n{unreleased}## [{newest}] - 2026-01-02\n\n- New.\n\n## [0.9.0] - 2026-01-01\n"
)


def ask(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / ".ci" / "release_version.py"), "--root", str(root), *options]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def checkout(folder: Path, *, version: str = "1.0.0", newest: str = "1.0.0", unreleased: str = "") -> Path:
    (folder / "kafka_chaos").mkdir()
    (folder / "kafka_chaos" / "__init__.py").write_text(f'"""A package."""\n\n__version__ = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=unreleased, newest=newest))
    return folder


def test_this_checkout_s_version_is_the_newest_of_its_changelog() -> None:
    import kafka_chaos

    done = ask(ROOT)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, kafka_chaos.__version__, "")


def test_a_tag_of_the_version_is_a_release(tmp_path: Path) -> None:
    done = ask(checkout(tmp_path), "--tag", "v1.0.0")
    assert (done.returncode, done.stdout) == (0, "1.0.0\n")


@pytest.mark.parametrize(
    ("made", "tag", "said"),
    [
        ({}, "v1.0.1", "the tag is v1.0.1, but kafka_chaos.__version__ is 1.0.0: expected v1.0.0"),
        ({}, "1.0.0", "the tag is 1.0.0, but kafka_chaos.__version__ is 1.0.0: expected v1.0.0"),
        ({"newest": "1.1.0"}, "v1.0.0", "its newest version is 1.1.0, but kafka_chaos.__version__ is 1.0.0"),
        ({"version": "1.1.0"}, "v1.1.0", "its newest version is 1.0.0, but kafka_chaos.__version__ is 1.1.0"),
        ({"unreleased": "- Later.\n\n"}, "v1.0.0", "there are entries under Unreleased"),
    ],
)
def test_what_differs_is_refused_and_named(made: dict[str, str], tag: str, said: str, tmp_path: Path) -> None:
    done = ask(checkout(tmp_path, **made), "--tag", tag)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr

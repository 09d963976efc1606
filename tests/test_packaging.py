"""One import name, wherever the package comes from: checkout, wheel or source archive.

By day CI's step `package` builds and tests the archives.
"""

import os
import re
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.plugin.installed import ROOT, build_wheel, must

LINKS = sorted(path.name for path in (ROOT / "kafka_chaos").iterdir() if path.is_symlink())
PACKAGES = sorted(
    path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("kafka_chaos", "tests")
)
DIST = os.environ.get("KAFKA_CHAOS_DIST")
"""A folder with archives that are already built: `make package` tests the ones to be published. Else they are built."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(DIST) if DIST else tmp_path_factory.mktemp("wheel")
    if not DIST:
        return build_wheel(ROOT, folder)
    (found,) = folder.glob("kafka_chaos-*.whl")
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive."""
    from hatchling.builders.sdist import SdistBuilder

    folder = Path(DIST) if DIST else tmp_path_factory.mktemp("sdist")
    if not DIST:
        list(SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))
    (found,) = folder.glob("kafka_chaos-*.tar.gz")
    return found


def files_of_the_packages() -> set[str]:
    """Every file of the checkout that belongs below kafka_chaos/; what git ignores does not."""
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *LINKS, "kafka_chaos")
    found = {name for name in must(*listing, cwd=ROOT).split("\0") if (ROOT / name).is_file()}
    return {name if name.startswith("kafka_chaos/") else f"kafka_chaos/{name}" for name in found}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(opened.read(name))


@pytest.mark.slow
def test_the_wheel_claims_one_name_and_carries_every_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if ".dist-info/" not in name} == files_of_the_packages()
    assert {f"kafka_chaos/{package}/__init__.py" for package in PACKAGES} < set(names)
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


@pytest.mark.slow
def test_the_source_archive_holds_every_package_and_what_a_reader_needs(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames()}
        links = [member.name for member in opened.getmembers() if member.issym() or member.islnk()]
    assert links == []
    assert {name for name in names if name.startswith("kafka_chaos/")} == files_of_the_packages()
    assert {"LICENSE", "CHANGELOG.md", "README.md", "ARCHITECTURE.md", "pyproject.toml", "PKG-INFO"} <= names


@pytest.mark.slow
def test_the_wheel_says_version_license_and_extras(wheel: Path) -> None:
    import kafka_chaos

    said = metadata(wheel)
    assert said["Version"] == kafka_chaos.__version__
    assert (said["License-Expression"], said.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/licenses/LICENSE")]
    assert zipfile.ZipFile(wheel).read(name) == (ROOT / "LICENSE").read_bytes()
    needed = said.get_all("Requires-Dist") or []
    assert [line for line in needed if "extra" in line] == [
        "edn-format>=0.8; extra == 'importers'",
        "pyspark<5,>=3.5; extra == 'spark'",
    ]


def test_the_distribution_is_named_by_pyproject_alone() -> None:
    """Whoever changes the name there is told of each command and message that installs the package by its name."""
    name = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    wanted = re.compile(
        r"""(?:install (?:-\S+ )*|default: )["']?(\w*kafka[-_.]?chaos)\b(?![-_]\*|/)|\b(\w*kafka[-_.]?chaos)\[\w+\]"""
        r"""|version\(["'](kafka[-_.]?chaos)["']\)"""
    )
    search = ("git", "grep", "-lIiE", "kafka[-_.]?chaos", "--", ".", ":!CHANGELOG.md", ":!docs/decisions")
    named = {
        (path, word)
        for path in must(*search, cwd=ROOT).split()
        for words in wanted.findall((ROOT / path).read_text(encoding="utf-8"))
        for word in words
        if word
    }
    assert {word for _, word in named} == {name}, named
    assert {"README.md", "docs/install.md", ".ci/chaos.gitlab-ci.yml"} <= {path for path, _ in named}


def test_the_checkout_has_a_link_for_every_package() -> None:
    assert {"conformance", "harness", "faults", "reference_model", "verification"} <= set(PACKAGES) <= set(LINKS)
    for name in LINKS:
        assert (ROOT / "kafka_chaos" / name).readlink() == Path("..") / name
        assert (ROOT / name).is_dir()

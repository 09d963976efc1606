"""The archive of the classes of Spark's JVM is used where there is one, and belongs to one JVM and one Spark."""

import os
import shlex
from pathlib import Path

import pytest

from kafka_chaos.verification.spark.class_archive import (
    class_archive,
    make_class_archive,
    recording_options,
    sharing_options,
)
from kafka_chaos.verification.spark.jars import SparkUnavailableError


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JVM and a Spark that can't be started, in `bin` and `spark`."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho this is no JVM >&2\nexit 1\n")
    java.chmod(0o755)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core_2.13-4.0.5.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_jvm_is_told_of_an_archive_that_exists() -> None:
    assert sharing_options() == ""
    archive = class_archive()
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive} " in sharing_options()


def test_a_path_with_spaces_is_one_option(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(programs / "my cache"))
    archive = class_archive()
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert shlex.split(sharing_options())[0] == f"-XX:SharedArchiveFile={archive}"
    assert shlex.split(recording_options(str(archive))) == [f"-XX:ArchiveClassesAtExit={archive}"]


@pytest.mark.parametrize("changed", ["bin/java", "spark/jars"])
def test_another_jvm_or_spark_has_another_archive(programs: Path, changed: str) -> None:
    before = class_archive()
    os.utime(programs / changed, (1, 1))
    assert class_archive() != before


def test_what_can_not_be_written_is_told_and_leaves_nothing() -> None:
    with pytest.raises(SparkUnavailableError, match="could not write the archive"):
        make_class_archive()
    assert not list(class_archive().parent.iterdir())

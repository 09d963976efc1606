"""The jars of Spark's Kafka source are those of the Spark in use."""

from pathlib import Path

import pytest

from kafka_chaos.verification.spark.jars import SparkUnavailableError, cache_dir, kafka_source


def home(folder: Path, jar: str) -> str:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / jar).touch()
    return str(folder)


@pytest.mark.parametrize(
    ("jar", "release", "scala"),
    [
        ("spark-core_2.12-3.5.9.jar", "3.5.1", "2.12"),
        ("spark-core_2.13-3.5.4-amzn-0.jar", "3.5.1", "2.13"),
        ("spark-core_2.13-4.0.5.jar", "4.0.0", "2.13"),
        ("spark-core_2.13-4.3.0.jar", "4.3.0", "2.13"),
    ],
)
def test_line_and_scala_are_those_of_the_spark_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: str, release: str, scala: str
) -> None:
    monkeypatch.setenv("SPARK_HOME", home(tmp_path / "spark", jar))
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(tmp_path))
    assert kafka_source() == (release, scala)
    assert cache_dir().name.startswith(f"{release}_{scala}-")


def test_without_spark_home_it_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.delenv("SPARK_HOME", raising=False)
    release, _ = kafka_source()
    assert release.rpartition(".")[0] == pyspark.__version__.rpartition(".")[0]


def test_a_spark_without_jars_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="no spark-core"):
        kafka_source()

"""A path with a scheme answers as a local one, and a run directory opens by either."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.verification import RunDirectoryError, verify
from kafka_chaos.verification.inputs.documents.reading import digest_of
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.inputs.storage import is_remote, remove, replace_folder, run_path, write_text
from tests.verification.samples.mutations import conforming, duplicate, hide, truncate


def test_what_is_remote() -> None:
    paths = {"runs/latest": False, "/a/b": False, "hdfs://nn/a": True, "file:/a": True, "s3a://b/c": True}
    assert {path: is_remote(path) for path in paths} == paths


def test_a_path_with_a_scheme_answers_as_a_local_one(tmp_path: Path) -> None:
    remote, local = run_path(f"{tmp_path.as_uri()}/a b%20"), tmp_path / "a b%20"
    assert not remote.exists()
    assert list(remote.glob("*")) == []
    remote.mkdir(parents=True)
    (remote / "b.txt").write_bytes("zwei\nähm\n".encode())
    (remote / "a.bin").write_bytes(bytes(range(256)) * 300)
    assert sorted(path.name for path in remote.glob("*")) == ["a.bin", "b.txt"]
    with (remote / "b.txt").open("rb") as file:
        assert file.read() == (local / "b.txt").read_bytes()
    with (remote / "a.bin").open("rb") as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == bytes([253, 254, 255])
        file.seek(70_000)
        assert file.read(4) == (bytes(range(256)) * 300)[70_000:70_004]
    for size in (76_800, 100, 0):
        assert digest_of(remote / "a.bin", size) == digest_of(local / "a.bin", size)
    write_text(remote / "b.txt", "drei")
    assert (local / "b.txt").read_bytes() == b"drei"
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        (remote / "gone.txt").open("rb")
    fresh = remote.with_name("fresh")
    fresh.mkdir(parents=True)
    (fresh / "c.txt").write_bytes(b"vier")
    replace_folder(fresh, remote)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")] == [f"{local.name}/c.txt"]
    remove(remote)
    assert not local.exists()


def nested(table: Path) -> None:
    (table / "more").mkdir()
    (table / "part-00001.parquet").rename(table / "more" / "part-00001.parquet")


MUTATIONS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda table: (table / "_SUCCESS").touch(),
    "hidden": lambda table: hide(table / "part-00001.parquet"),
    "nested": nested,
    "doubled": lambda table: duplicate(table / "part-00001.parquet"),
    "no-events": lambda table: (table.parent / "events.jsonl").write_bytes(b""),
    "truncated": lambda table: truncate(table / "part-00001.parquet"),
    "no-log": lambda table: [file.unlink() for file in sorted(table.iterdir())],
}


def opened(place: str | Path) -> dict[str, Any]:
    """By table, what its folder shows of its rows; or why the run directory is refused."""
    try:
        run = open_run(place)
    except RunDirectoryError as refusal:
        return {"refused": str(refusal).removeprefix(str(place))}
    tables = {name: [table.given, table.rows, len(table.files), table.unread] for name, table in run.tables.items()}
    return {**tables, "faults": run.events.faults is not None and len(run.events.faults)}


def test_a_run_directory_opens_alike_by_path_and_by_uri(tmp_path: Path) -> None:
    outcomes = {}
    for name, mutation in MUTATIONS.items():
        run_dir = tmp_path / name
        mutation(conforming().write(run_dir, files=2) / "log")
        outcomes[name] = opened(run_dir)
        assert opened(run_dir.as_uri()) == outcomes[name]
    assert len({str(outcome) for outcome in outcomes.values()}) == len(MUTATIONS)


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(EnvironmentFailure, match="unheard-of://host: PyArrow can't reach this file system"):
        verify("unheard-of://host/run")

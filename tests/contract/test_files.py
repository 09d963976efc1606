"""Files that appear whole or not at all."""

from pathlib import Path

import pytest

from kafka_chaos.contract.command.files import UNFINISHED_GLOB, appearing_whole, cache_home, write_whole


def test_while_it_is_written_a_file_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with appearing_whole(tmp_path / "a") as part, appearing_whole(tmp_path / "a") as other:
        part.write_text("new")
        other.write_text("newer")
        assert (tmp_path / "a").read_text() == "old"
        assert sorted(tmp_path.glob(UNFINISHED_GLOB)) == sorted((part, other))
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize("error", [OSError("the disk"), KeyboardInterrupt()])
def test_a_block_that_fails_changes_nothing(tmp_path: Path, error: BaseException) -> None:
    write_whole(tmp_path / "a", "old")

    def fail() -> None:
        with appearing_whole(tmp_path / "a") as part:
            part.write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_what_can_not_be_put_in_place_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="a"):
        write_whole(tmp_path / "a", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "a", "text")


def test_a_folder_of_the_user_is_where_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_CHAOS_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for base, expected in (("", ".cache/kafka-chaos"), ("relative", ".cache/kafka-chaos"), ("/c", "/c/kafka-chaos")):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert cache_home() == tmp_path / expected
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", "/own")
    assert cache_home() == Path("/own")

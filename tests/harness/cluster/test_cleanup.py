"""What ends with its run, without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import Reaper

from kafka_chaos.harness.cluster.containers.cleanup import refusals_ignored, set_up_reaper


def engine(*images: str) -> Any:
    return SimpleNamespace(images=SimpleNamespace(list=lambda name: [one for one in images if one == name]))


def test_the_reaper_is_started_once_and_not_for_a_cluster_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(Reaper, "get_instance", lambda: started.append("reaper"))
    image = testcontainers_config.ryuk_image
    for client, keep, used in ((engine(image), False, True), (engine(image), True, False), (engine(), False, False)):
        monkeypatch.setattr(testcontainers_config, "ryuk_disabled", False)
        assert set_up_reaper(client, keep=keep) is used
        assert testcontainers_config.ryuk_disabled is not used
    assert started == ["reaper"]
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    assert not set_up_reaper(engine(image), keep=False)


def refusal(status: int, why: str = "no") -> APIError:
    return APIError("no", response=SimpleNamespace(status_code=status), explanation=why)  # type: ignore[no-untyped-call]


def test_what_is_gone_or_does_not_run_is_no_error_and_any_other_refusal_is_one() -> None:
    for error in (NotFound("gone"), refusal(403), refusal(409), refusal(500, "PID 7 is zombie and")):  # type: ignore[no-untyped-call]
        with refusals_ignored():
            raise error
    with pytest.raises(APIError), refusals_ignored():
        raise refusal(500)

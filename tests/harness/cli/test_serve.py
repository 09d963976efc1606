"""`kafka-chaos serve`: for this machine only, known files only, and nothing else."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.cli.serve import make_server
from tests.harness.cli.test_runs_command import make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    run = make(root, 1, lost=7)
    (run / "report.html").write_text("<h1>the report</h1>")
    (run / "logs").mkdir()
    (run / "logs" / "broker-1.log").write_text("started")
    (run / "secret.txt").write_text("not for browsers")
    (tmp_path / "outside.log").write_text("outside")
    (run / "logs" / "link.log").symlink_to(tmp_path / "outside.log")
    (root / "nightly").mkdir()
    (root / "nightly" / "trend.html").write_text("<h1>the trend</h1>")
    return root


@pytest.fixture
def port(root: Path) -> Iterator[int]:
    with make_server(root, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


RUN = "/20260101-030000-orders-0001"


def test_the_first_page_lists_runs_and_links_reports_and_trends(port: int) -> None:
    status, body, headers = ask(port, "/")
    assert status == 200
    assert f'href="{RUN}/report.html"' in body
    assert 'href="/nightly/trend.html"' in body
    assert "fast: lost_write 7" in body
    assert 'href="/coverage"' in body
    assert "What the runs have tried" in ask(port, "/coverage")[1]
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_files_of_runs_are_served_with_their_kind(port: int) -> None:
    assert ask(port, f"{RUN}/report.html")[1] == "<h1>the report</h1>"
    status, body, headers = ask(port, f"{RUN}/experiment.yaml")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert "name: orders" in body
    assert ask(port, f"{RUN}/logs/broker-1.log")[1] == "started"
    assert ask(port, "/nightly/trend.html")[0] == 200
    assert ask(port, f"{RUN}/report.html", method="HEAD")[:2] == (200, "")


@pytest.mark.parametrize(
    "path",
    [
        f"{RUN}/secret.txt",
        f"{RUN}/logs/link.log",
        "/../outside.log",
        "/%2e%2e/outside.log",
        f"{RUN}/logs/..%2f..%2f..%2foutside.log",
        f"{RUN}/logs/%00.log",
        f"{RUN}/",
        "/nowhere/report.html",
        "//etc/passwd",
    ],
)
def test_nothing_else_is_served(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example:1"])
def test_a_request_under_another_name_is_refused(port: int, host: str) -> None:
    assert ask(port, "/", host=host)[0] == 403


def test_nothing_can_be_changed(port: int) -> None:
    assert ask(port, f"{RUN}/report.html", method="POST")[0] == 501
    assert ask(port, f"{RUN}/report.html", method="DELETE")[0] == 501


def test_it_listens_on_this_machine_only(root: Path) -> None:
    with make_server(root, 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_and_a_folder_that_is_not_there_are_told(root: Path, port: int, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=f"port {port} of 127.0.0.1 is not available .* --port"):
        make_server(root, port)
    with pytest.raises(UsageFailure, match="no such folder"):
        make_server(tmp_path / "none", 0)

"""`kafka-chaos serve`: run directories in a browser on this machine.

Guarantee: the server listens on 127.0.0.1 only and answers only requests that name this machine as their host. It
serves only the known files of run directories below its root, and changes nothing.
"""

from __future__ import annotations

import mimetypes
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.run_directory import (
    CHECKPOINTS_FILE,
    EVENTS_FILE,
    EXPERIMENT_FILE,
    LANES_FILE,
    PREDICTION_FILE,
    REPORT_FILE,
    VERDICT_FILE,
)
from kafka_chaos.harness.cli.coverage import coverage_page

ADDRESS = "127.0.0.1"
PORT = 8070
_FILES = frozenset(
    {REPORT_FILE, "trend.html", "summary.md", "summary.json", VERDICT_FILE, PREDICTION_FILE, LANES_FILE}
    | {EXPERIMENT_FILE, EVENTS_FILE, CHECKPOINTS_FILE}
)
_TEXT = {".yaml": "text/plain", ".jsonl": "text/plain", ".log": "text/plain", ".md": "text/plain"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def servable(root: Path, asked: str) -> Path | None:
    """The file that a request's path names; None for everything except the known files below `root`."""
    parts = [part for part in asked.split("/") if part]
    if not parts or any(part in (".", "..") or "\\" in part or "\0" in part for part in parts):
        return None
    path = root.joinpath(*parts)
    known = parts[-1] in _FILES or (len(parts) >= 2 and parts[-2] == "logs" and parts[-1].endswith(".log"))
    try:
        resolved = path.resolve(strict=True)
    except OSError:
        return None
    return resolved if known and resolved.is_file() and resolved.is_relative_to(root.resolve()) else None


def index(root: Path) -> str:
    """The page that lists the runs below `root`, with its nightly runs."""
    from kafka_chaos.harness.cli.runs import runs_below
    from kafka_chaos.harness.report.pages import environment

    runs = [(run, run.path.relative_to(root).as_posix()) for run in runs_below(root)]
    pages = [path.relative_to(root).as_posix() for path in sorted(root.glob("**/trend.html"))]
    return environment().get_template("runs.html.j2").render(runs=runs, pages=pages, root=str(root))


_PAGES = {"/": index, "/coverage": coverage_page}


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: the terminal is the user's."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (ADDRESS, "localhost"):
            # Against DNS rebinding: no foreign page may read runs by resolving to this machine.
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"this server answers only requests from this machine\n")
            return
        asked = unquote(urlsplit(self.path).path)
        if (page := _PAGES.get(asked)) is not None:
            self._send(HTTPStatus.OK, "text/html", page(self.server.root).encode())
            return
        path = servable(self.server.root, asked)
        if path is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such file of a run\n")
            return
        kind = _TEXT.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._send(HTTPStatus.OK, kind, path.read_bytes())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        super().__init__((ADDRESS, port), _Handler)


def make_server(root: Path, port: int) -> _Server:
    """A listening server. Raises `UsageFailure` if `root` is no folder, `EnvironmentFailure` if the port is in use."""
    if not root.is_dir():
        raise UsageFailure(f"{root}: no such folder, expected one with run directories")
    try:
        return _Server(root, port)
    except OSError as error:
        raise EnvironmentFailure(
            f"port {port} of {ADDRESS} is not available ({error.strerror}): give another one with --port, or 0"
        ) from error


@click.command("serve")
@click.argument("root", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
def serve_command(root: Path, port: int) -> None:
    """Browse run directories in a browser, until Ctrl-C. Listens on 127.0.0.1 only."""
    with make_server(root, port) as server:
        click.echo(f"http://{ADDRESS}:{server.server_port}/ shows the runs below {root}; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("")

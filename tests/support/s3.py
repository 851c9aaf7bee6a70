"""A local S3 server that records the requests that it gets, and answers some of them with faults."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.fs
import pytest

SLOW_SECONDS = 1.0

_ERRORS = {
    "throttled": ("503 Slow Down", "SlowDown"),
    "failed": ("500 Internal Server Error", "InternalError"),
    "forbidden": ("403 Forbidden", "InvalidAccessKeyId"),
}
FAULTS = ("throttled", "failed", "slow", "torn", "short", "reset")
"""Faults of the server, in this order: 503 or 500; answer after SLOW_SECONDS; close the connection in the middle of the
body; send half of the body, and say that this is all; reset the connection."""


class S3Server:
    """`address` is its host and port; `requests`, the method and the path of each request, in order, and `agents` the
    programs that sent them, as their User-Agent says. `fault` chooses the fault by which a request is answered, from
    its method and path; None: a right answer. `credentials` are the access keys and session tokens of the requests.
    `allowed`: the access keys that may list, and ask for sizes; None: all. `readers`: those that may read too; None:
    all that are allowed. `delay`: seconds before each answer. `bytes_read` and
    `most_at_once`: the bytes of the ranges that were requested, and how many were requested at the same time."""

    def __init__(self, address: str, requests: list[tuple[str, str]]) -> None:
        self.address, self.requests = address, requests
        self.credentials: list[tuple[str, str]] = []
        self.agents: list[str] = []
        self.allowed: set[str] | None = None
        self.readers: set[str] | None = None
        self.delay = 0.0
        self.bytes_read = self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()
        self.fault: Callable[[str, str], str | None] = lambda method, path: None
        self.filesystem = pyarrow.fs.S3FileSystem(
            endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True
        )

    def url(self, path: str) -> str:
        return f"s3://bucket/{path}?endpoint_override={self.address}&scheme=http&region=us-east-1"

    @property
    def options(self) -> dict[str, str]:
        """The storage options that lead to the server."""
        return {"endpoint_override": self.address, "scheme": "http", "region": "us-east-1"}

    def upload(self, local: Path, path: str) -> None:
        for file in local.rglob("*"):
            if file.is_file():
                with self.filesystem.open_output_stream(f"bucket/{path}/{file.relative_to(local)}") as out:
                    out.write(file.read_bytes())

    def admits(self, key: str, method: str, path: str) -> bool:
        reads = method == "GET" and "/" in path.strip("/")
        return all(keys is None or key in keys for keys in (self.allowed, self.readers if reads else None))

    @contextmanager
    def answering(self, byte_range: str) -> Iterator[None]:
        """Wait, and count the bytes of a request, which may have a header with their range."""
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        with self._lock:
            self._at_once += bool(last)
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.bytes_read += int(last) + 1 - int(first) if last else 0
        try:
            time.sleep(self.delay)
            yield
        finally:
            with self._lock:
                self._at_once -= bool(last)

    def names(self, path: str) -> list[str]:
        """The names of all objects below `path`."""
        selector = pyarrow.fs.FileSelector(f"bucket/{path}", recursive=True, allow_not_found=True)
        return sorted(info.base_name for info in self.filesystem.get_file_info(selector) if info.is_file)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with an empty bucket, and the environment that clients need."""
    moto_server = pytest.importorskip("moto.server")
    environment = {
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        # All servers of a process share their buckets.
        urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
        application, requests = server._server.app, list[tuple[str, str]]()

        def recorded(environ: dict[str, Any], start_response: Any) -> Any:
            request = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            requests.append(request)
            made.agents.append(environ.get("HTTP_USER_AGENT", ""))
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
            made.credentials.append((key, environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")))
            fault = made.fault(*request) if made.admits(key, *request) else "forbidden"
            with made.answering(environ.get("HTTP_RANGE", "")):
                return _answer(fault, application, environ, start_response)

        made = S3Server(f"{host}:{port}", requests)
        server._server.app = recorded
        try:
            made.filesystem.create_dir("bucket")
            yield made
        finally:
            server.stop()


def _answer(fault: str | None, application: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The answer of a WSGI `application`, with a fault."""
    if fault == "slow":
        time.sleep(SLOW_SECONDS)
    if fault in (None, "slow"):
        answer: Iterable[bytes] = application(environ, start_response)
        return answer
    if fault == "reset":
        client: socket.socket = environ["werkzeug.socket"]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.shutdown(socket.SHUT_RD)
        client.close()
        raise ConnectionResetError("by the test")
    if fault in _ERRORS:
        status, code = _ERRORS[fault]
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}, by the test</Message></Error>".encode()
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]
    answered: list[Any] = []

    def keep(status: str, headers: Any, *_: Any) -> None:
        answered.extend((status, headers))

    body = b"".join(application(environ, keep))
    half = body[: len(body) // 2]
    length = len(half) if fault == "short" else len(body)
    headers = [(name, value) for name, value in answered[1] if name.lower() != "content-length"]
    if environ["REQUEST_METHOD"] == "HEAD":
        headers = answered[1]
    else:
        headers.append(("Content-Length", str(length)))
    start_response(answered[0], headers)
    return [half]

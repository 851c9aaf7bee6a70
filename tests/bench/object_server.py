"""``python -m tests.bench.object_server DIRECTORY``: serves a directory as the S3 bucket ``bucket``. Prints its port.

A server for tests answers in milliseconds of CPU, which would be what is measured. This one checks no signatures, knows
HEAD, GET of a range, and LIST of a directory, and sends each answer after a delay: milliseconds, the query of
``GET /delay?30``. ``GET /counts`` returns the numbers of requests by method, and of bytes, since it was asked last.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from time import gmtime, strftime
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_BUCKET = "/bucket"


class _Server:
    def __init__(self, home: Path) -> None:
        self._home, self._delay, self._counts = home, 0.0, Counter[str]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                request, *lines = head.decode("latin-1").split("\r\n")
                method, target, _ = request.split()
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                answer = self._answer(method, target, headers.get("range", ""))
                if target.startswith(_BUCKET):
                    await asyncio.sleep(self._delay)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, method: str, target: str, byte_range: str) -> bytes:
        url = urlsplit(target)
        path = unquote(url.path)
        if path == "/delay":
            self._delay = float(url.query) / 1000
            return _response(b"")
        if path == "/counts":
            counts, self._counts = self._counts, Counter()
            return _response(json.dumps(counts).encode())
        if path.rstrip("/") == _BUCKET:
            self._counts["LIST"] += 1
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            return _response(self._listing(prefix))
        self._counts[method] += 1
        file = self._home / path.removeprefix(_BUCKET).lstrip("/")
        if not file.is_file():
            return _response(b"", "404 Not Found")
        status = file.stat()
        headers = {
            "ETag": f'"{status.st_mtime_ns}"', "Last-Modified": formatdate(status.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }  # fmt: skip
        if method == "HEAD":
            return _response(b"", length=status.st_size, **headers)
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, status.st_size - int(last))
        end = min(int(last), status.st_size - 1) if first and last else status.st_size - 1
        with file.open("rb") as stream:
            stream.seek(start)
            data = stream.read(end + 1 - start)
        self._counts["bytes"] += len(data)
        return _response(
            data, "206 Partial Content", **headers, **{"Content-Range": f"bytes {start}-{end}/{status.st_size}"}
        )

    def _listing(self, prefix: str) -> bytes:
        entries = []
        directory = self._home / prefix.rpartition("/")[0]
        for file in sorted(path for path in directory.rglob("*") if path.is_file()):
            key, status = str(file.relative_to(self._home)), file.stat()
            if key.startswith(prefix):
                time = strftime("%Y-%m-%dT%H:%M:%S.000Z", gmtime(status.st_mtime))
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{time}</LastModified>"
                    f'<ETag>"{status.st_mtime_ns}"</ETag><Size>{status.st_size}</Size></Contents>'
                )
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount><MaxKeys>100000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{''.join(entries)}</ListBucketResult>"
        ).encode()


def _response(body: bytes, status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def serving(bucket: Path) -> Iterator[str]:
    """The address of a server of the directory `bucket`, in a process of its own."""
    command = [sys.executable, "-m", __name__, str(bucket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


async def _main(home: Path) -> None:
    server = await asyncio.start_server(_Server(home).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))

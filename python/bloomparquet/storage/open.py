"""Which storage a path has: local, one of pyarrow's, or one of fsspec's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import pyarrow.fs

from bloomparquet.errors import OptionError, quoted
from bloomparquet.storage.files import ArrowStorage, LocalStorage, Storage
from bloomparquet.storage.globs import without_glob
from bloomparquet.storage.options import OPTIONS, StorageOptions, digest, make_filesystem, path_of

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_LOCAL = LocalStorage()


def open_storage(path: str, filesystem: Any = None) -> tuple[Storage, str]:
    """The storage of `path`, and the path without its scheme.

    `filesystem` is a :class:`pyarrow.fs.FileSystem`, an fsspec file system, or a mapping of storage options for the
    scheme. Without a file system, the scheme decides: none or ``file`` is local (``~`` is the home directory, as for
    pyarrow), pyarrow serves what it knows (s3, gs, hdfs, abfs), and fsspec serves every other scheme.
    """
    path = os.fspath(path)
    options = filesystem if isinstance(filesystem, Mapping) else {}
    if filesystem is not None and options is not filesystem:
        return _wrap(filesystem), _SCHEME.sub("", path)
    if path.startswith("file:"):
        if re.match("file://(?!localhost/)[^/]", path):
            raise OptionError(f"path is {quoted(path)}; expected an absolute path in a URL: file:///…/{path[7:]}")
        inner = re.sub("^file:(//[^/]*)?", "", path)
        return _LOCAL, inner if os.path.exists(inner) else unquote(inner)
    match = _SCHEME.match(path)
    if match is None:
        return _LOCAL, os.path.expanduser(path)
    scheme = match.group()[:-3].lower()
    if scheme == "s3a":  # Hadoop's name for s3
        scheme = "s3"
    if scheme in OPTIONS:
        return _open_native(scheme, path[match.end() :], options)
    from bloomparquet.storage.fsspec_files import open_fsspec  # lazy import: keeps fsspec off the start-up path

    fs, inner = open_fsspec(path, scheme, options)
    return _wrap(fs), inner


def _open_native(scheme: str, location: str, options: StorageOptions) -> tuple[Storage, str]:
    """The storage of ``scheme://location``, and the path on it. The URL's query (``?region=…``) has options too."""
    inner, mark, query = location.rpartition("?")
    if not mark or "=" not in query or "/" in query.partition("=")[0]:
        inner, query = location, ""
    # A URI may not contain all characters of a glob: open the directory in which the glob begins.
    fixed = without_glob(inner)
    authority = fixed.split("/", 1)[0]
    if options:
        options = {**dict(parse_qsl(query)), **options}
        filesystem, suffix = make_filesystem(scheme, authority, options)
    else:
        suffix = query
        # Without the path: pyarrow refuses characters that a URI may not contain, such as blanks.
        filesystem, _ = pyarrow.fs.FileSystem.from_uri(f"{scheme}://{authority}/{'?' if query else ''}{query}")
    stripped = path_of(scheme, fixed)
    if scheme == "s3" and "endpoint_override" not in suffix and (endpoint := _endpoint_of_environment()):
        suffix = "&".join(filter(None, (suffix, f"endpoint_override={endpoint}")))  # other files than those of AWS
    key = f"{scheme}://{authority.rpartition('@')[2]}{'?' if suffix else ''}{suffix}"
    storage = ArrowStorage(filesystem, key, (key, digest(authority, options)))
    return storage, stripped + inner[len(fixed) :]


def _endpoint_of_environment() -> str:
    """The endpoint that pyarrow takes for S3 if none is given."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


class _FileSystemKey:
    """The key of a file system that was passed as an object. Equal file systems have equal keys."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem) -> None:
        self._filesystem = filesystem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileSystemKey) and bool(self._filesystem == other._filesystem)

    def __hash__(self) -> int:
        return hash(self._filesystem.type_name)  # pyarrow's file systems have no hash

    def __str__(self) -> str:
        return f"file system {self._filesystem.type_name}"


def _wrap(filesystem: Any) -> Storage:
    protocol = getattr(filesystem, "protocol", ())  # of fsspec: one name, or several
    protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem) or "file" in protocols:
        return _LOCAL
    if not isinstance(filesystem, pyarrow.fs.FileSystem):
        from bloomparquet.storage.fsspec_files import FsspecHandler

        if not hasattr(filesystem, "protocol"):
            raise OptionError(
                f"filesystem is {quoted(filesystem)}; expected a pyarrow.fs.FileSystem, a file system of fsspec, or a "
                "dictionary of storage options"
            )
        filesystem = pyarrow.fs.PyFileSystem(FsspecHandler(filesystem))
    filesystem = _with_our_handler(filesystem)
    return ArrowStorage(filesystem, _FileSystemKey(filesystem))


def _with_our_handler(filesystem: pyarrow.fs.FileSystem) -> pyarrow.fs.FileSystem:
    """`filesystem`, with our handler instead of pyarrow's if it is one of fsspec."""
    if isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
        base = filesystem.base_fs
        ours = _with_our_handler(base)
        return filesystem if ours is base else pyarrow.fs.SubTreeFileSystem(filesystem.base_path, ours)
    if isinstance(filesystem, pyarrow.fs.PyFileSystem) and type(filesystem.handler) is pyarrow.fs.FSSpecHandler:
        from bloomparquet.storage.fsspec_files import FsspecHandler

        return pyarrow.fs.PyFileSystem(FsspecHandler(filesystem.handler.fs))
    return filesystem

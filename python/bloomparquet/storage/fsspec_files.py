"""Opens file systems of fsspec from URLs, and makes their errors say what happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import pyarrow.fs
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.dirfs import DirFileSystem

from bloomparquet.errors import BloomParquetError, UnsupportedError, shorten
from bloomparquet.storage.options import OPTIONS, StorageOptions

_OWN_SEARCHES = (fsspec.AbstractFileSystem.find, AsyncFileSystem._find)


def open_fsspec(url: str, scheme: str, options: StorageOptions) -> tuple[Any, str]:
    """The file system of `url`, and the path on it. Raises UnsupportedError if fsspec makes none of the URL."""
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
    except (OSError, BloomParquetError):
        raise
    except ImportError as error:  # the message of fsspec names the package
        raise UnsupportedError(f"{shorten(url)}: the scheme {scheme}:// needs a package: {error}") from error
    except Exception as error:
        if scheme in fsspec.available_protocols():
            raise UnsupportedError(
                f"{shorten(url)}: fsspec makes no file system of this URL: {error}; correct the URL, or in Python pass "
                f"an open file system as filesystem=, such as fsspec.filesystem({scheme!r}, …)"
            ) from error
        raise UnsupportedError(
            f"{shorten(url)}: no file system is known for the scheme {scheme}://; expected a local path, one of "
            f"{', '.join(OPTIONS)}, or a scheme of fsspec; install the package that registers {scheme} with fsspec"
        ) from error
    return filesystem, path


class FsspecHandler(pyarrow.fs.FSSpecHandler):  # type: ignore[misc]
    """Passes a file system of fsspec to pyarrow.

    Errors of the libraries below fsspec, which have no common base, become OSErrors. Sizes and times are those of now:
    fsspec may keep listings for ever, so a replaced file would look unchanged. A directory that cannot be listed is an
    error: fsspec's own search leaves it out, so that its files would be missing.
    """

    def get_file_info(self, paths: list[str]) -> Any:
        with self._errors():
            for path in paths:
                self.fs.invalidate_cache(path)
                self.fs.invalidate_cache(self.fs._parent(path))  # adlfs takes sizes from the listing of the directory
            return super().get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        with self._errors():
            self.fs.invalidate_cache()  # also the listings of the directories below
            if (selector.recursive and not _searches_by_listing(self.fs)) or not self.fs.isdir(selector.base_dir):
                return super().get_file_info_selector(selector)
            entries = _list_below(self.fs, selector.base_dir, recursive=selector.recursive)
            return [self._create_file_info(name, info) for name, info in sorted(entries.items())]

    def open_input_file(self, path: str) -> Any:
        with self._errors():
            return super().open_input_file(path)

    def copy_file(self, src: str, dest: str) -> None:
        with self._errors():
            self.fs.cp_file(src, dest)  # the method of pyarrow takes brackets and question marks for patterns

    def delete_file(self, path: str) -> None:
        with self._errors():
            self.fs.rm_file(path)  # see copy_file

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, BloomParquetError):
            raise
        except Exception as error:
            raise OSError(f"{self.get_type_name()}: {type(error).__name__}: {error}") from error


def _searches_by_listing(filesystem: Any) -> bool:
    """Whether fsspec finds the files below a directory by listing each directory. Object stores list a prefix."""
    while isinstance(filesystem, DirFileSystem):
        filesystem = filesystem.fs
    kind = type(filesystem)
    return getattr(kind, "_find", kind.find) in _OWN_SEARCHES


def _list_below(filesystem: Any, root: str, *, recursive: bool) -> dict[str, Any]:
    """The entries below the directory `root`, by name. Raises the error of a directory that cannot be listed."""
    entries: dict[str, Any] = {}
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            listed = filesystem.ls(directory, detail=True)
        except FileNotFoundError:
            name = directory.rstrip("/").rpartition("/")[2]
            if name.startswith(("_", ".")) and "=" not in name:  # writers remove their temporary directories
                continue
            raise
        for info in listed:
            name = info["name"]
            is_itself = name.strip("/") in (directory.strip("/"), root.strip("/"))
            if name in entries or (is_itself and (info["type"] == "directory" or directory == root)):
                continue
            entries[name] = info = _with_size_and_type(filesystem, name, info)
            if recursive and info["type"] == "directory":
                pending.append(name)
    return entries


def _with_size_and_type(filesystem: Any, name: str, info: Any) -> Any:
    """`info` of a listing, which over HTTP has no sizes, and over SFTP does not say what symbolic links lead to."""
    is_link = info["type"] not in ("file", "directory")
    if not is_link and (info["type"] == "directory" or info.get("size") is not None):
        return info
    followed: Any = {**filesystem.info(name), "name": name}
    if is_link and followed["type"] == "directory":
        raise UnsupportedError(
            f"{shorten(name)}: this symbolic link leads to a directory, which a listing of {filesystem.protocol} does "
            "not contain; name that directory itself, or remove the link"
        )
    if followed["type"] == "file" and followed.get("size") is None:
        raise UnsupportedError(
            f"{shorten(name)}: the file system reports no size for this file; Parquet and ORC files are read from "
            "their ends: copy the file to a storage that reports sizes"
        )
    return followed

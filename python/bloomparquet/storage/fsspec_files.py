"""Opens file systems of fsspec from URLs, and makes their errors say what happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import pyarrow.fs

from bloomparquet.errors import BloomParquetError, UnsupportedError, shorten
from bloomparquet.storage.options import OPTIONS, StorageOptions


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
    fsspec may keep listings for ever, so a replaced file would look unchanged.
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
            return super().get_file_info_selector(selector)

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

"""The footer of a file that is to get other filters: where there is none, the error says that the file stays as it is,
and what can be done instead."""

from __future__ import annotations

from bloomparquet.errors import EncryptionError, NotParquetError, UnsupportedError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

WRITE_ORC = (
    "write ORC with the option bloomColumns of Spark's format bloomorc, or with bloom_filter_columns of "
    "pyarrow.orc.write_table"
)


def read_footer(storage: Storage, file: FileInfo, count: ReadCount, keys: Keys | None) -> Footer:
    """Raises UnsupportedError for an ORC file, whose filters lie within its stripes, and what
    :func:`bloomparquet.parquet.metadata.footer.read_footers` does."""
    try:
        (footer,) = read_footers(storage, [file], count, keys=keys)
    except NotParquetError:
        from bloomparquet.orc.file_tail import are_orc  # here, because who has no ORC files shall not wait for it

        if not any(are_orc(storage, [file], count)):
            raise
        raise UnsupportedError(
            f"{file.path} is an ORC file, whose filters are made as it is written, and it is left as it is; {WRITE_ORC}"
        ) from None
    except EncryptionError as error:
        why = str(error).removeprefix(f"{file.path}: ")
        raise type(error)(f"{file.path}: the file does not open and is left as it is: {why}") from error
    assert footer is not None
    return footer

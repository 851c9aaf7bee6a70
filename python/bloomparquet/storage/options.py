"""Storage options: endpoint, credentials and retries of S3, Google Cloud Storage, Azure and HDFS.

They have the names of pyarrow's file systems and may be text, so that Python, the command line and Spark share them.
None of them names code or a program.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow.fs

from bloomparquet.errors import OptionError, did_you_mean, quoted, shorten

StorageOptions: TypeAlias = Mapping[str, Any]


def _parse_flag(value: Any) -> bool:
    return value if isinstance(value, bool) else ("false", "true").index(str(value).strip().lower()) == 1


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _parse_seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 < seconds < float("inf"):
        raise ValueError(value)
    return seconds


def _parse_count(value: Any) -> int:
    if int(value) < 1:
        raise ValueError(value)
    return int(value)


_Check = tuple[str, Callable[[Any], Any]]  # what is expected, and the conversion
_TEXT: _Check = "text", _parse_text
_FLAG: _Check = "true or false", _parse_flag
_SECONDS: _Check = "a number of seconds above 0", _parse_seconds
_COUNT: _Check = "a whole number from 1 up", _parse_count
_TIME: _Check = "a time with an offset, such as 2026-01-31T00:00:00+00:00", dt.datetime.fromisoformat

_S3: dict[str, _Check] = {
    "access_key": _TEXT, "secret_key": _TEXT, "session_token": _TEXT, "anonymous": _FLAG, "role_arn": _TEXT,
    "session_name": _TEXT, "external_id": _TEXT, "region": _TEXT, "endpoint_override": _TEXT, "scheme": _TEXT,
    "force_virtual_addressing": _FLAG, "proxy_options": _TEXT, "tls_ca_file_path": _TEXT, "connect_timeout": _SECONDS,
    "request_timeout": _SECONDS, "max_attempts": _COUNT,
}  # fmt: skip
_GCS: dict[str, _Check] = {
    "anonymous": _FLAG, "access_token": _TEXT, "credential_token_expiration": _TIME, "target_service_account": _TEXT,
    "project_id": _TEXT, "endpoint_override": _TEXT, "scheme": _TEXT, "retry_time_limit": _SECONDS,
}  # fmt: skip
_AZURE: dict[str, _Check] = {
    "account_name": _TEXT, "account_key": _TEXT, "sas_token": _TEXT, "tenant_id": _TEXT, "client_id": _TEXT,
    "client_secret": _TEXT, "blob_storage_authority": _TEXT, "dfs_storage_authority": _TEXT,
    "blob_storage_scheme": _TEXT, "dfs_storage_scheme": _TEXT,
}  # fmt: skip
_HDFS: dict[str, _Check] = {"user": _TEXT, "kerb_ticket": _TEXT, "replication": _COUNT}
OPTIONS: dict[str, dict[str, _Check]] = {
    "s3": _S3, "gs": _GCS, "gcs": _GCS, "abfs": _AZURE, "abfss": _AZURE, "hdfs": _HDFS, "viewfs": _HDFS
}  # fmt: skip
"""The options of each scheme that pyarrow serves."""
_LOCATION_OPTIONS = ("account_name", "endpoint_override", "scheme", "blob_storage_authority", "dfs_storage_authority")


def filesystem_or_options(filesystem: Any, storage_options: StorageOptions | None) -> Any:
    """The file system or the options, whichever is given; None if neither is. OptionError if both are."""
    if filesystem is not None and storage_options is not None:
        raise OptionError("both filesystem and storage_options are given; expected one: a file system has its options")
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise OptionError(f"storage_options is a {type(storage_options).__name__}; expected a dictionary")
    return filesystem if storage_options is None else storage_options


def make_filesystem(scheme: str, authority: str, options: StorageOptions) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of URLs ``scheme://authority/…``, and the options that distinguish its location from others, as
    text. Makes a request to S3 if there is neither a region nor an endpoint.

    Raises OptionError for a name or a value that the scheme does not know. No message shows a value of an option.
    """
    given = _check(scheme, options)
    location = "&".join(f"{name}={given[name]}" for name in _LOCATION_OPTIONS if name in given)
    user, _, host = authority.rpartition("@")
    if scheme == "s3":
        if user:
            key, _, secret = user.partition(":")
            given = {"access_key": unquote(key), "secret_key": unquote(secret), **given}
        if "region" not in given and "endpoint_override" not in given:
            given["region"] = pyarrow.fs.resolve_s3_region(host)
        if "max_attempts" in given:
            given["retry_strategy"] = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=given.pop("max_attempts"))
        return pyarrow.fs.S3FileSystem(**given), location
    if scheme in ("gs", "gcs"):
        if "retry_time_limit" in given:
            given["retry_time_limit"] = dt.timedelta(seconds=given["retry_time_limit"])
        return pyarrow.fs.GcsFileSystem(**given), location
    if scheme in ("abfs", "abfss"):
        account = host.partition(".")[0]  # of container@account.dfs.core.windows.net
        if "sas_token" in given:  # pyarrow appends it to URLs as it is
            given["sas_token"] = f"?{given['sas_token'].removeprefix('?')}"
        return pyarrow.fs.AzureFileSystem(**{"account_name": account, **given}), location
    name, _, port = host.partition(":")
    if user:
        given = {"user": unquote(user), **given}
    host = f"{scheme}://{name}" if scheme == "viewfs" else name or "default"
    return pyarrow.fs.HadoopFileSystem(host, int(port or 0), **given), location


def check_options(url: str, options: StorageOptions) -> None:
    """Raise OptionError unless the scheme of `url` has these `options`. Spark may give no options for schemes that
    fsspec serves: file systems of fsspec may take options that name code to run."""
    scheme = url.partition("://")[0].lower() if "://" in url else "file"
    scheme = "s3" if scheme == "s3a" else scheme
    if scheme not in OPTIONS:
        raise OptionError(f"storage options are for URLs of {', '.join(OPTIONS)}; found {shorten(url)}")
    _check(scheme, options)


def digest(authority: str, options: StorageOptions) -> str:
    """Identifies a file system's authority and options, and shows none of them."""
    text = repr((authority, sorted(options.items())))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def path_of(scheme: str, location: str) -> str:
    """The path that the file system of `scheme` has for ``scheme://location``, as pyarrow reads URLs."""
    authority, slash, path = location.partition("/")
    user, _, host = authority.rpartition("@")
    if scheme in ("hdfs", "viewfs"):
        return unquote(f"/{path}")
    container = host if scheme in ("s3", "gs", "gcs") else user
    return unquote(f"{container}{slash}{path}" if container else path)


def _check(scheme: str, options: StorageOptions) -> dict[str, Any]:
    known, values = OPTIONS[scheme], {}
    for name, value in options.items():
        if name not in known:
            raise OptionError(
                f"{scheme}:// has no storage option {quoted(name)}{did_you_mean(str(name), known)}; it has "
                f"{', '.join(known)}"
            )
        expected, parse = known[name]
        try:
            values[name] = parse(value)
        except (ValueError, TypeError):
            raise OptionError(
                f"the storage option {name} of {scheme}:// has a wrong value; expected {expected}"
            ) from None
    return values

"""S3 through pyarrow's own file system, against a local server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pytest

import bloomparquet as bp
from bloomparquet.storage.open import open_storage
from tests.support.files import write

moto_server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("NO_PROXY", "127.0.0.1"),
            ("no_proxy", "127.0.0.1"),
        ):
            patch.setenv(name, value)
        server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        address = f"{host}:{port}"
        s3 = filesystem(address)
        s3.create_dir("bucket")
        folder = tmp_path_factory.mktemp("s3")
        for day in (1, 2):
            for part in range(2):
                values = [1000 * day + 100 * part + i for i in range(0, 100, 2)]
                local = write(
                    folder / f"{day}-{part}.parquet", {"x": values, "y": list(range(50))}, ["x"], rows_per_group=10
                )
                with s3.open_output_stream(f"bucket/table/day=2026-01-0{day}/{part}.parquet") as out:
                    out.write(Path(local).read_bytes())
        with s3.open_output_stream("bucket/table/_SUCCESS") as out:
            out.write(b"")
        yield address
        server.stop()


def filesystem(endpoint: str) -> fs.S3FileSystem:
    return fs.S3FileSystem(endpoint_override=endpoint, scheme="http", region="us-east-1", allow_bucket_creation=True)


def url(endpoint: str, path: str) -> str:
    return f"s3://bucket/{path}?endpoint_override={endpoint}&scheme=http&region=us-east-1"


@pytest.mark.parametrize(
    "path", ["table", "table/", "table/*/*.parquet", "table/day=2026-01-0[12]/?.parquet", "table/**/*.parquet"]
)
def test_a_url_with_an_endpoint_is_listed_and_read(path: str, endpoint: str) -> None:
    plan = bp.plan(url(endpoint, path), "x = 2104")
    assert plan.total == 20
    assert plan.kept == 1
    assert plan.kept_row_groups()[0].path == "bucket/table/day=2026-01-02/1.parquet"
    assert bp.read_table(url(endpoint, path), "x = 2104").column("y").to_pylist() == [2]


@pytest.mark.parametrize("name", ["a b", "100%", "é", "a#b", "a|b", "a+b", "p=1%2F2"])
def test_names_that_a_uri_may_not_contain(name: str, endpoint: str, tmp_path: Path) -> None:
    """In a URL as they are, with escapes, and with storage options."""
    with filesystem(endpoint).open_output_stream(f"bucket/names/{name}/x.parquet") as out:
        out.write(Path(write(tmp_path / "x.parquet", {"x": [1, 2]}, ["x"])).read_bytes())
    options = {"endpoint_override": endpoint, "scheme": "http", "region": "us-east-1"}
    escaped = name.replace("%", "%25").replace("#", "%23").replace(" ", "%20")
    for path in (escaped, name) if "%2" not in name else (escaped,):
        assert bp.read_table(url(endpoint, f"names/{path}"), "x = 2").num_rows == 1
        assert bp.read_table(f"s3://bucket/names/{path}", "x = 2", storage_options=options).num_rows == 1


def test_a_name_that_pyarrow_does_not_open_is_a_named_error(endpoint: str) -> None:
    storage, _ = open_storage(url(endpoint, "x"))
    with pytest.raises(bp.UnsupportedError, match="bucket/a//b: pyarrow opens no file of this name"):
        storage.open_file("bucket/a//b")


@pytest.mark.parametrize("path", ["bucket//t", "/bucket/t", "bucket//*", "/bucket/t/*"])
def test_a_path_that_pyarrow_refuses_is_a_named_error(path: str, endpoint: str) -> None:
    s3, table = filesystem(endpoint), pa.table({"x": [1]})
    file = "bucket/table/day=2026-01-01/0.parquet"
    for use in (
        lambda: bp.plan(path, "x = 1", filesystem=s3),
        lambda: bp.build_index(path, filesystem=s3),
        lambda: bp.write_table(table, path, filesystem=s3),
        lambda: bp.add_filters(file, path, bloom="x", filesystem=s3),
    ):
        with pytest.raises(bp.OptionError, match="expected a path of the storage"):
            use()


def test_no_object_is_written_at_a_name_of_a_directory(endpoint: str) -> None:
    """No listing shows an object whose name ends with a slash."""
    with pytest.raises(IsADirectoryError):
        bp.write_table(pa.table({"x": [1]}), "bucket/new/", filesystem=filesystem(endpoint))


def test_a_file_system_object_is_used(endpoint: str) -> None:
    s3 = filesystem(endpoint)
    for path in ("bucket/table", "s3://bucket/table", "bucket/table/day=*", "bucket/table/**/*.parquet"):
        assert bp.read_table(path, "x = 2104", filesystem=s3).num_rows == 1, path
    assert bp.plan("bucket/table", "day = DATE '2026-01-01'", filesystem=s3).skipped == {"partition": 2}


def test_missing_paths_are_file_not_found_errors(endpoint: str) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        bp.plan(url(endpoint, "nothing"))
    with pytest.raises(FileNotFoundError, match="nothing"):
        bp.plan(url(endpoint, "nothing/*.parquet"))

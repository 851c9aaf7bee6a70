"""Azure and Google Cloud Storage on local servers: plans, rows, indexes, filters added in place, wrong credentials."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.storage.open import open_storage
from tests.support.emulators import AZURE_ACCOUNT, AZURE_KEY, azurite, fake_gcs
from tests.support.files import write

ROOTS = {"abfss": f"abfss://box@{AZURE_ACCOUNT}.dfs.core.windows.net", "gs": "gs://box"}
SERVERS = {"abfss": (azurite, {"account_key": AZURE_KEY}), "gs": (fake_gcs, {"anonymous": "true"})}
WHERE = bp.Eq("id", 7_919 * 17 % 1_000_003)


class Account:
    """`url` of a table of two files of five row groups, the options of its `place`, and `credentials`."""

    def __init__(self, scheme: str, place: dict[str, str], credentials: dict[str, str]) -> None:
        self.url, self.place, self.credentials = f"{ROOTS[scheme]}/t", place, credentials

    @property
    def options(self) -> dict[str, str]:
        return {**self.place, **self.credentials}


@pytest.fixture(scope="module", params=ROOTS)
def account(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    server, credentials = SERVERS[request.param]
    home = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        made = Account(request.param, stack.enter_context(server()), credentials)
        storage, root = open_storage(made.url, made.options)
        storage.filesystem.create_dir(root.split("/")[0])
        for part in range(2):
            ids = [i * 7_919 % 1_000_003 for i in range(part, 1_000, 2)]
            write(home / f"{part}.parquet", {"id": ids}, ["id"], fpp=1e-6, rows_per_group=100)
            with storage.filesystem.open_output_stream(f"{root}/{part}.parquet") as out:
                out.write((home / f"{part}.parquet").read_bytes())
        yield made


@pytest.fixture(autouse=True)
def cold() -> None:
    process_cache.clear()


def test_a_lookup_reads_one_row_group(account: Account) -> None:
    plan = bp.plan(account.url, WHERE, storage_options=account.options)
    assert (plan.kept, plan.skipped["bloom"]) == (1, 9)
    assert bp.read_table(account.url, WHERE, storage_options=account.options)["id"].to_pylist() == [WHERE.value]


def test_filters_are_added_in_place_and_indexed(account: Account) -> None:
    url = f"{account.url}-plain"  # pyarrow alone does not find the directory t of Azure beside it
    storage, root = open_storage(url, account.options)
    with storage.filesystem.open_output_stream(f"{root}/a.parquet") as out:
        pq.write_table(bp.read_table(account.url, storage_options=account.options), out, row_group_size=100)
    assert bp.plan(url, WHERE, storage_options=account.options).kept == 10
    bp.add_filters(url, bloom={"id": bp.Bloom(fpp=1e-6)}, filesystem=account.options)
    bp.build_index(url, ["id"], filesystem=account.options)
    plan = bp.plan(url, WHERE, storage_options=account.options)
    assert (plan.indexed, plan.kept, plan.skipped["bloom"]) == (1, 1, 9)
    assert storage.is_directory("box/t")
    assert not storage.is_directory("box/no")


def sas_token() -> str:
    """A token for an hour, that may list and read."""
    until = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = {"sp": "rl", "ss": "b", "srt": "sco", "se": until, "sv": "2021-06-08", "spr": "https,http"}
    signed = [AZURE_ACCOUNT, fields["sp"], "b", "sco", "", until, "", fields["spr"], fields["sv"], "", ""]
    digest = hmac.new(base64.b64decode(AZURE_KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


@pytest.mark.parametrize("account", ["abfss"], indirect=True)
def test_azure_takes_a_sas_token_and_refuses_a_wrong_key(account: Account) -> None:
    for mark in ("", "?"):
        given = {**account.place, "sas_token": f"{mark}{sas_token()}"}
        assert bp.read_table(account.url, WHERE, storage_options=given).num_rows == 1
    wrong = base64.b64encode(b"wrong" * 16).decode()
    with pytest.raises(OSError, match="403") as raised:
        bp.read_table(account.url, WHERE, storage_options={**account.place, "account_key": wrong})
    assert wrong not in str(raised.value)

"""Plans of encrypted files equal those of plaintext files with the same rows. Without keys, everything is kept."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.errors import MissingKeyError
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.open import open_storage
from tests.support.core import Reads, kept_indexes, watch_reads
from tests.support.disk_cache import use_disk
from tests.support.encrypted_table import COLUMNS, FOOTER, GROUPS, KEYS, OTHER, OWN, ROWS, rows, write

ALGORITHMS = ["AES_GCM_V1", "AES_GCM_CTR_V1"]


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    process_cache.clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return watch_reads(monkeypatch)


def codes(path: Path, where: str, keys: bp.Keys | None = None) -> list[int]:
    return bp.plan(path, where, keys=keys).codes.tolist()


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("uniform", [False, True])
def test_with_all_keys_plans_equal_those_of_plaintext_files(
    uniform: bool, algorithm: str, plaintext_footer: bool, tmp_path: Path
) -> None:
    keys = bp.Keys(FOOTER) if uniform else KEYS
    encrypted = write(tmp_path / "encrypted.parquet", keys, algorithm=algorithm, plaintext_footer=plaintext_footer)
    plain = write(tmp_path / "plain.parquet", None)
    wheres = (
        "id = 8", "id = 7", "id IN (2, 4, 7)", "text = 't8'", "text IN ('t7', 'u')", "at = 8", "at < 900",
        "id > 100000", "id = 8 AND at < 900", "v = 4.0", "v = 4.25", "NOT id = 8", "id IS NULL", "text > 'u'",
    )  # fmt: skip
    for where in wheres:
        assert codes(encrypted, where, keys) == codes(plain, where), where
        assert not bp.plan(encrypted, where, keys=keys).errors
        assert bp.read_table(encrypted, where, keys=keys).equals(bp.read_table(plain, where)), where
    for value in range(0, 2 * GROUPS * ROWS, 97):
        verdicts = [probe.verdict for probe in bp.probe(encrypted, column="id", value=value, keys=keys)]
        assert verdicts == [probe.verdict for probe in bp.probe(plain, column="id", value=value)]


def test_a_later_plan_keeps_the_extents_of_an_earlier_one(tmp_path: Path) -> None:
    """The extents of encrypted chunks are computed one by one."""
    path, keys = tmp_path / "x.parquet", bp.Keys(FOOTER)
    bp.write_table(pa.table({"a": range(2_000)}), path, row_group_size=10, encryption=bp.Encryption(keys))
    for where in ("a IN (35, 55)", "a >= 0"):
        groups = bp.plan(path, where, keys=keys).kept_row_groups()
        assert all(group.start >= 4 and group.length > 0 for group in groups)


def test_a_column_without_its_key_skips_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "x.parquet")
    keys = bp.Keys(FOOTER, {"text": OTHER})
    with caplog.at_level(logging.WARNING, "bloomparquet"):
        plan = bp.plan(path, "id = 7", keys=keys)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)
    assert {type(error) for error in plan.errors} == {MissingKeyError}
    assert str(plan.errors[3]).startswith(
        f"{path}: row group 3, column id: encrypted, but the key of column id is not given"
    )
    assert len(caplog.records) == 1
    for where in ("id > 100000", "id IS NULL", "id <> 7 OR id = 4", "id < 0"):
        plan = bp.plan(path, where, keys=keys)
        assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
    assert not bp.plan(path, "text = 't7'", keys=keys).errors
    assert bp.plan(path, "text = 't7'", keys=keys).kept == 0
    both = bp.plan(path, "id = 7 AND text = 't7'", keys=keys)
    assert (both.kept, len(both.errors)) == (0, GROUPS)
    assert bp.plan(path, "id = 7 OR text = 't7'", keys=keys).kept == GROUPS
    with pytest.raises(bp.EncryptionError, match="the key of column id is not given"):
        bp.plan(path, "id = 7", keys=keys, on_filter_error="fail")


def test_a_footer_without_its_key_keeps_the_whole_file(tmp_path: Path) -> None:
    encrypted, plain = write(tmp_path / "a.parquet"), write(tmp_path / "b.parquet", None)
    plan = bp.plan(tmp_path, "id = 7")
    assert (plan.total, plan.kept, len(plan.errors)) == (GROUPS + 1, 1, 1)
    (group,) = plan.kept_row_groups()
    assert (group.path, group.index, group.start, group.length) == (str(encrypted), None, 0, encrypted.stat().st_size)
    assert plan.row_groups[GROUPS] == group
    assert plan.row_groups[0].path == str(plain)
    assert "1 files with an unreadable footer kept whole" in repr(plan)
    with pytest.raises(bp.EncryptionError, match=r"a\.parquet: encrypted, but the footer key is not given"):
        bp.read_table(tmp_path, "id = 7")
    with pytest.raises(bp.EncryptionError, match=r"a\.parquet"):
        bp.plan(tmp_path, "id = 7", on_filter_error="fail")
    assert bp.plan(tmp_path, "nobody = 7").kept == GROUPS + 1, "the undecryptable file may have such a column"
    with pytest.raises(bp.PlanError, match="nobody"):
        bp.plan(tmp_path, "nobody = 7", keys=KEYS)
    assert bp.plan(tmp_path, "id = 7", keys=KEYS).kept == 0


def test_plaintext_columns_of_a_plaintext_footer_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", plaintext_footer=True)
    plan = bp.plan(path, "at = 8")
    assert (plan.kept, plan.skipped["statistics"], plan.errors) == (1, GROUPS - 1, ())
    for where in ("id = 7", "id > 100000", "text = 't7'", "text IS NULL"):
        plan = bp.plan(path, where)
        assert (plan.kept, len(plan.errors), plan.bloom_bytes_read) == (GROUPS, GROUPS, 0), where
    assert bp.read_table(path, "at = 8", columns=["at", "v"]).num_rows == 1


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_a_wrong_key_skips_nothing(plaintext_footer: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    wrong = bp.Keys(FOOTER, {"id": OTHER, "text": OWN})
    for column, absent in (("id", "7"), ("text", "'t7'")):
        for where in (f"{column} = {absent}", f"{column} IS NULL", f"{column} < {absent} AND {column} > {absent}"):
            plan = bp.plan(path, where, keys=wrong)
            assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
        with pytest.raises(bp.EncryptionError, match="column metadata cannot be decrypted: the key is wrong"):
            bp.probe(path, column=column, value=7 if column == "id" else "t7", keys=wrong)
    plan = bp.plan(path, "at = 7 AND id = 7", keys=bp.Keys(b"x" * 16, COLUMNS))
    assert (plan.kept, len(plan.errors), len(plan.unreadable)) == (1, 1, 1)
    assert bp.plan(path, "id = 7", keys=KEYS).kept == 0


def test_equal_keys_share_the_cache_and_others_do_not(tmp_path: Path, reads: Reads) -> None:
    path = str(write(tmp_path / "x.parquet"))
    first = bp.plan(path, "id = 7", keys=KEYS)
    assert first.skipped["bloom"] >= GROUPS - 1
    assert first.requests == len(reads.of(path)) == 2, "the footer, and the adjacent filters"
    count = len(reads.of(path))
    again = bp.plan(path, "id = 9", keys=bp.Keys(FOOTER, dict(COLUMNS)))
    assert again.skipped["bloom"] >= GROUPS - 1
    assert (again.requests, len(reads.of(path))) == (0, count), "equal keys share the cache"
    other = bp.plan(path, "id = 9", keys=bp.Keys(FOOTER, {"id": OWN}))
    assert other.requests == 2, "other keys read for themselves"
    assert bp.plan(path, "id = 9").kept == 1


def test_encrypted_and_plaintext_files_in_one_data_set(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", first=0)
    write(tmp_path / "b.parquet", None, first=GROUPS * ROWS)
    write(tmp_path / "c.parquet", bp.Keys(FOOTER), first=2 * GROUPS * ROWS)
    write(tmp_path / "d.parquet", plaintext_footer=True, first=3 * GROUPS * ROWS)
    for _ in range(2):  # the second from the cache
        for value in range(0, 8 * GROUPS * ROWS, 530):
            even = value // 2 * 2
            plan = bp.plan(tmp_path, f"id = {even}", keys=KEYS)
            assert plan.kept >= 1
            assert plan.kept < plan.total // 4
            assert bp.read_table(tmp_path, f"id = {even}", columns=["id"], keys=KEYS).column("id").to_pylist() == [even]
        bp.plan(
            sorted(tmp_path.iterdir())[1:3], "id = 1", keys=KEYS
        )  # a table is assembled from others with the same files


def test_the_disk_cache_holds_no_encrypted_files(tmp_path: Path) -> None:
    data, store = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    plain, signed = write(data / "a.parquet", None), write(data / "b.parquet", plaintext_footer=True)
    write(data / "c.parquet")
    try:
        use_disk(store)
        for path, keys in ((signed, KEYS), (data, KEYS), (signed, None), (data, None)):
            bp.plan(path, "id = 7", keys=keys)
            bp.plan(path, "at = 7", keys=keys)
        process_cache.persist()
        stored = [path.read_bytes() for path in store.rglob("*.columns")]
        assert not any(name in raw for raw in stored for name in (b"b.parquet", b"c.parquet"))
        bp.plan(plain, "id = 7", keys=KEYS)
        process_cache.persist()
        assert list(store.rglob("*.columns")), "plaintext files are cached, whatever keys are given"
        process_cache.clear()
        assert bp.plan(data, "id = 7", keys=KEYS).kept == 0
        process_cache.persist()
        assert len(list(store.iterdir())) == 1
    finally:
        use_disk(None)


def test_a_file_profile_holds_no_secrets(tmp_path: Path) -> None:
    """A profile is stored for plaintext files, and may come from an encrypted file with the same schema."""
    table = rows().rename_columns(["id", "text", "at", "unlike any other test's"])
    bp.write_table(table, tmp_path / "a.parquet", encryption=KEYS, key_values={"who": "nobody may know"})
    bp.write_table(table, tmp_path / "b.parquet")
    storage = open_storage(str(tmp_path))[0]
    encrypted, plain = read_footers(storage, storage.list_files(str(tmp_path), recursive=False), ReadCount(), keys=KEYS)
    assert encrypted.profile.schema is plain.profile.schema
    assert encrypted.key_values["who"] == "nobody may know"
    for footer in (encrypted, plain):
        assert footer.profile.skeleton.startswith(plain.raw[:80])
        assert b"nobody may know" not in footer.profile.skeleton


def test_published_files_are_read_with_their_keys(parquet_testing_dir: Path) -> None:
    keys = bp.Keys(b"0123456789012345", {"double_field": b"1234567890123450", "float_field": b"1234567890123451"})
    name = "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
    path = parquet_testing_dir / name
    for column, part, present in (("double_field", 0.5, (0, 1, 7, 42)), ("float_field", 0.25, (0, 2, 5, 10))):
        for i in present:
            assert bp.probe(path, column=column, value=i + part, keys=keys)[0].verdict is bp.Verdict.MIGHT_MATCH
        absent = [bp.probe(path, column=column, value=i + 0.125, keys=keys)[0].verdict for i in range(300)]
        assert absent.count(bp.Verdict.MIGHT_MATCH) < 30
        assert kept_indexes(bp.plan(path, f"{column} = 42.125", keys=keys)) == set()
    assert bp.inspect(path, keys=keys).column("column").to_pylist() == ["double_field", "float_field"]
    assert bp.read_table(path, "double_field = 42.5", keys=keys).num_rows == 1

"""Key providers: each process caches the keys, and an error says what is wrong with a provider."""

from __future__ import annotations

import pickle
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.errors import OptionError, PlanError
from bloomparquet.writing.retrofit.change import AddFilters
from pyspark_bloomparquet.options import key_provider
from pyspark_bloomparquet.options.key_provider import provided_keys
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.listing import LoadListing
from pyspark_bloomparquet.retrofit.retrofit import change_on_executor

Provider = Callable[[str], str]


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """Makes a module whose function `keys` has the given body, and returns the function's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(key_provider, "_calls", {})

    def make(body: str) -> str:
        name = f"provider_{len(list(tmp_path.iterdir()))}_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(f"import time, bloomparquet as bp\ncalls = []\ndef keys():\n    {body}\n")
        return f"{name}:keys"

    return make


def calls(provider: str) -> int:
    return len(sys.modules[provider.partition(":")[0]].calls)


COUNTED = "calls.append(1); time.sleep(0.2); return bp.Keys(b'k' * 16)"


def test_concurrent_queries_share_one_call_until_it_expires(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, results = provider(COUNTED), []
    threads = [threading.Thread(target=lambda: results.append(provided_keys(name))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls(name) == 1
    assert all(keys is results[0] for keys in results)
    assert results[0] == bp.Keys(b"k" * 16)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 599)
    assert provided_keys(name) is results[0]
    monkeypatch.setattr(time, "monotonic", lambda: now + 601)
    assert provided_keys(name) is not results[0]
    assert calls(name) == 2


def test_a_failed_call_is_repeated(provider: Provider) -> None:
    name = provider("calls.append(1); assert len(calls) > 1, 'a secret'; return bp.Keys(b'k' * 16)")
    with pytest.raises(OptionError, match="raised AssertionError; call it in Python to see why") as raised:
        provided_keys(name)
    assert "secret" not in str(raised.value)
    assert provided_keys(name) == bp.Keys(b"k" * 16)


@pytest.mark.parametrize("body", ["sys.exit(3)", "raise asyncio.CancelledError"])
def test_a_provider_cannot_end_the_process(provider: Provider, body: str) -> None:
    with pytest.raises(OptionError, match=r"raised (SystemExit|CancelledError)"):
        provided_keys(provider(f"import sys, asyncio; {body}"))


def test_waiting_for_a_hanging_provider_has_a_limit(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    name = provider("calls.append(1); time.sleep(1.0); return bp.Keys(b'k' * 16)")
    for _ in range(2):
        with pytest.raises(PlanError, match=r"did not return within 0 seconds"):
            provided_keys(name, timeout=0.2)
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 5)
    with pytest.raises(PlanError):
        provided_keys(name, timeout=5)
    assert provided_keys(name) == bp.Keys(b"k" * 16)
    assert calls(name) == 1


def test_keys_that_decrypt_nothing_are_fetched_again_later(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a rotation of keys."""
    name = provider("calls.append(1); return bp.Keys((b'x' if len(calls) < 2 else b'k') * 16)")
    bp.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet", encryption=bp.Keys(b"k" * 16))
    monkeypatch.setenv("BLOOMPARQUET_KEY_PROVIDERS", name)
    options = Options.parse({"path": str(tmp_path / "a.parquet"), "keyProvider": name})
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(bp.EncryptionError, match="the key is wrong"):
            LoadListing(options).schema()
    assert calls(name) == 1
    monkeypatch.setattr(time, "monotonic", lambda: began + 6)
    with pytest.raises(bp.EncryptionError):
        LoadListing(options).schema()
    assert LoadListing(options).schema().fieldNames() == ["x"]
    assert calls(name) == 2


def test_a_module_in_a_shipped_archive_is_found(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner has only the directory on its path, not the archive."""
    home = tmp_path / "userFiles-1"
    home.mkdir()
    monkeypatch.syspath_prepend(str(home))
    with zipfile.ZipFile(home / "company.zip", "w") as archive:
        archive.writestr("shipped_company/__init__.py", "")
        archive.writestr("shipped_company/keys.py", "import bloomparquet as bp\ndef all(): return bp.Keys(b'k' * 16)\n")
    assert provided_keys("shipped_company.keys:all") == bp.Keys(b"k" * 16)


def test_the_error_for_a_missing_module_says_where_it_was_sought(provider: Provider) -> None:
    with pytest.raises(OptionError, match=rf"no module nobodys; {sys.executable} looks for modules on PYTHONPATH"):
        provided_keys("nobodys.keys:all")
    with pytest.raises(OptionError) as raised:
        provided_keys(provider("import nobodys"))  # the provider exists; a module that it imports does not
    assert "PYTHONPATH" not in str(raised.value)


def test_a_provider_must_be_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed in ("", "os:abort2, os", "os:abor", "os:*"):
        monkeypatch.setenv("BLOOMPARQUET_KEY_PROVIDERS", allowed)
        with pytest.raises(OptionError, match=r"keyProvider is 'os:abort'; .* BLOOMPARQUET_KEY_PROVIDERS"):
            Options.parse({"path": "x", "keyprovider": "os:abort"})
    monkeypatch.setenv("BLOOMPARQUET_KEY_PROVIDERS", "other:keys, a.b:c")
    assert Options.parse({"path": "x", "keyprovider": "a.b:c"}).key_provider == "a.b:c"
    with pytest.raises(
        OptionError, match=r"option Parquet.Encryption.Footer.Key is for Spark's own reader.*keyProvider"
    ):
        Options.parse({"path": "x", "Parquet.Encryption.Footer.Key": "a value"})
    with pytest.raises(OptionError, match="keyProvider is not of the form module:function") as raised:
        Options.parse({"path": "x", "keyprovider": "a key by mistake"})
    assert "by mistake" not in str(raised.value)


def test_shipped_files_never_replace_other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL's ADD FILE writes to the directory of shipped modules."""
    monkeypatch.setattr("sys.path", list(sys.path))
    shipped = tmp_path / "userFiles-1"
    shipped.mkdir()
    (shipped / "colorsys.py").write_text("raise SystemExit")
    (shipped / "keys_that_were_shipped.py").write_text(
        "import bloomparquet as bp\ndef keys(): return bp.Keys(b'k' * 16)"
    )
    for provider in ("colorsys:keys", "module_that_is_nowhere:keys"):
        with pytest.raises(OptionError, match=r"has no keys|no module"):
            provided_keys(provider, shipped_files=str(shipped))
        assert str(shipped) not in sys.path
    assert provided_keys("keys_that_were_shipped:keys", shipped_files=str(shipped)) == bp.Keys(b"k" * 16)
    assert sys.path[-1] == str(shipped)


def test_a_provider_that_an_executor_lacks_is_in_the_outcome(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    bp.write_table(pa.table({"id": range(100)}), path, encryption=bp.Keys(b"k" * 16))
    before = Path(path).read_bytes()
    payload = pickle.dumps((AddFilters({"id": bp.Bloom()}), path, False, "nobodys:keys"))
    outcome = change_on_executor(payload, path)
    assert (outcome.action, outcome.path) == ("failed", path)
    assert outcome.error is not None
    assert f"{path}: on {socket.gethostname()}: key provider 'nobodys:keys' cannot be imported" in outcome.error
    assert Path(path).read_bytes() == before

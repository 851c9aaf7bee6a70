"""Keys: which one decrypts a column, what is rejected, and that nothing reveals them."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.errors import EncryptionError, OptionError
from bloomparquet.parquet.encryption.keys import FileKeys, Keys, load_keys
from bloomparquet.storage.files import LocalStorage
from tests.support.kms import full_text, reveals

ONE, TWO, THREE = b"0123456789abcdef", bytes(range(100, 124)), b"\xfe'\"\\" * 8
ALL = (ONE, TWO, THREE)


def file_keys(*arguments: Any, **named: Any) -> FileKeys:
    return Keys(*arguments, **named).for_file(LocalStorage(), "/data/a.parquet")


def test_a_given_key_is_not_retrieved() -> None:
    requested: list[bytes] = []

    def retrieve(metadata: bytes) -> bytes:
        requested.append(metadata)
        return THREE

    keys = file_keys(ONE, {"a": TWO}, retriever=retrieve)
    assert (keys.footer_key(b"f"), keys.column_key(("a",), b"a")) == (ONE, TWO)
    assert requested == []
    assert keys.column_key(("b",), b"of b") == THREE
    assert file_keys(retriever=retrieve).footer_key(b"of the footer") == THREE
    assert requested == [b"of b", b"of the footer"]


@pytest.mark.parametrize(
    ("columns", "column", "key"),
    [
        ({"a": ONE}, ("a",), ONE),
        ({"a.b": ONE}, ("a", "b", "c"), ONE),
        ({"a.b": TWO, "a": ONE}, ("a", "b"), TWO),
        ({"a.b": ONE}, ("a.b",), ONE),
        ({"a.b": ONE, ("a", "b"): TWO}, ("a", "b"), TWO),
        ({"a.b": ONE, ("a", "b"): TWO}, ("a.b",), ONE),
        ({"list": ONE}, ("list", "list", "element"), ONE),
    ],
)
def test_the_innermost_name_decides_the_key(columns: Any, column: Any, key: bytes) -> None:
    assert file_keys(columns=columns).column_key(column, None) == key
    name = Keys(columns=columns).name_of(column)
    assert columns[name] == key


@pytest.mark.parametrize(
    ("name", "column"),
    [("a", ("ab",)), ("a", ("b", "a")), ("a.b", ("a",)), ("a.b", ("a", "bc")), ("A", ("a",)), (("a.b",), ("a", "b"))],
)
def test_part_of_a_name_does_not_match(name: Any, column: Any) -> None:
    with pytest.raises(EncryptionError, match=rf"the key of column {'.'.join(column)} is not given; pass it in keys"):
        file_keys(columns={name: ONE}).column_key(column, b"metadata")


def test_the_footer_key_is_not_used_for_column_keys() -> None:
    with pytest.raises(EncryptionError, match="the key of column a is not given"):
        file_keys(ONE).column_key(("a",), None)


def test_without_key_metadata_nothing_is_retrieved() -> None:
    keys = file_keys(retriever=lambda metadata: ONE)
    with pytest.raises(EncryptionError, match="the footer key is not given, and the file has no key metadata"):
        keys.footer_key(None)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_of_a_key_size_are_a_key(kind: Callable[[bytes], bytes]) -> None:
    for key in ALL:
        keys = file_keys(kind(key), {"a": kind(key)}, retriever=kind)
        assert keys.footer_key(None) == keys.column_key(("a",), None) == keys.column_key(("b",), key) == key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"footer": "0123456789abcdef"}, "the footer key is a str; expected bytes"),
        ({"footer": ONE[:-1]}, "the footer key has 15 bytes; expected 16, 24 or 32"),
        ({"columns": {("a", "b"): None}}, "the key of column a.b is a NoneType; expected bytes"),
        ({"columns": {ONE: "a"}}, "columns has a key for a bytes; expected a column's name, or its path"),
        ({"columns": {(ONE,): ONE}}, "columns has a key for a tuple"),
        ({"columns": [("a", ONE)]}, "columns is a list; expected a mapping of column names to keys"),
        ({"retriever": ONE}, "retriever is a bytes; expected a function of key metadata to key"),
        ({"aad_prefix": "a"}, "aad_prefix is a str; expected bytes"),
    ],
)
def test_an_invalid_key_is_rejected_and_not_shown(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Keys(**arguments)
    assert not reveals(str(caught.value), *ALL, ONE[:-1], ONE * 3)


@pytest.mark.parametrize(
    ("retrieve", "message"),
    [
        (lambda metadata: None, "what the retriever returned for the footer key is a NoneType; expected bytes"),
        (lambda metadata: ONE + b"!", "has 17 bytes; expected 16, 24 or 32"),
        (lambda metadata: {b"": b""}[ONE], "the footer key could not be retrieved: the retriever raised KeyError"),
    ],
)
def test_errors_of_retrievers_do_not_show_their_text(retrieve: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(EncryptionError, match=message) as caught:
        file_keys(retriever=retrieve).footer_key(b"metadata")
    assert not reveals(full_text(caught.value), *ALL)


def test_a_retriever_may_depend_on_the_file() -> None:
    class Beside:
        def for_file(self, storage: Any, path: str) -> Callable[[bytes], bytes]:
            def read(metadata: bytes) -> bytes:
                if metadata == b"gone":
                    raise ConnectionResetError(path)
                return f"{storage.key}{path}".encode()[-16:]

            return read

    keys = Keys(retriever=Beside())
    assert keys.for_file(LocalStorage(), "/d/a.parquet").footer_key(b"") == b"file/d/a.parquet"
    # An error of reading beside the file is not wrapped.
    with pytest.raises(ConnectionResetError):
        keys.for_file(LocalStorage(), "/d/a.parquet").footer_key(b"gone")


def test_no_text_and_no_pickle_contains_keys() -> None:
    keys = Keys(ONE, {"a": TWO, ("b", "c"): THREE}, retriever=lambda metadata: ONE, aad_prefix=b"tenant-17")
    expected = "Keys(footer=given, columns=(a, b.c), retriever=given, aad_prefix=given, allow_plaintext_files=True)"
    assert repr(keys) == str(keys) == f"{keys}" == expected
    assert repr(Keys()) == "Keys(footer=None, columns=(), retriever=None, aad_prefix=None, allow_plaintext_files=True)"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="keys are not pickled") as caught:
            pickle.dumps({"keys": keys}, protocol)
        assert not reveals(full_text(caught.value), *ALL)
    assert not hasattr(keys, "__dict__")
    one_file = keys.for_file(LocalStorage(), "/a")
    assert not reveals(repr(one_file) + str(one_file), *ALL)
    with pytest.raises(TypeError):
        pickle.dumps(one_file)


def test_keys_are_immutable() -> None:
    columns: dict[Any, bytes] = {"a": ONE}
    keys = Keys(TWO, columns)
    columns["b"] = columns["a"] = THREE
    assert keys == Keys(TWO, {"a": ONE})
    assert copy.copy(keys) is copy.deepcopy({"keys": keys})["keys"] is keys
    with pytest.raises(AttributeError):
        keys.aad_prefix = b"another"  # type: ignore[misc]


def test_keys_with_equal_content_are_equal() -> None:
    def retrieve(metadata: bytes) -> bytes:
        return ONE

    def same() -> Keys:
        return Keys(ONE, {"a": TWO, "b": THREE}, retriever=retrieve, aad_prefix=b"p")

    assert same() == same()
    assert hash(same()) == hash(same())
    assert Keys(columns={"a": ONE, "b": TWO}) == Keys(columns={"b": TWO, "a": ONE})
    for other in ({"footer": TWO}, {"columns": {"a": TWO}}, {"retriever": len}, {"aad_prefix": b"q"}):
        one = {"footer": ONE, "columns": {"a": TWO, "b": THREE}, "retriever": retrieve, "aad_prefix": b"p"}
        assert same() != Keys(**{**one, **other})  # type: ignore[arg-type]

    class WithoutHash:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, metadata: bytes) -> bytes:
            return ONE

    unhashable = WithoutHash()
    assert {Keys(retriever=unhashable): 1}[Keys(retriever=unhashable)] == 1


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module with the given text, under a name that no other test uses."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> str:
        name = f"keys_of_{tmp_path.name.translate({ord('-'): '_', ord('['): '_', ord(']'): '_'})}"
        (tmp_path / f"{name}.py").write_text(
            f"from bloomparquet.parquet.encryption.keys import Keys\nKEY = {ONE!r}\n{text}"
        )
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


def test_a_provider_is_named_by_module_and_function(module: Callable[[str], str]) -> None:
    name = module(
        "def events(): return Keys(KEY)\n"
        "class Tenants:\n"
        "    @staticmethod\n"
        "    def first(): return Keys(columns={'a': KEY})\n"
    )
    assert load_keys(f"{name}:events") == Keys(ONE)
    assert load_keys(f"{name}:Tenants.first") == Keys(columns={"a": ONE})


@pytest.mark.parametrize("provider", ["", "keys", "keys:", ":events", "a:b:c", "./keys.py:events", ".keys:f", "a b:c"])
def test_a_provider_in_another_form_is_rejected(provider: str) -> None:
    with pytest.raises(OptionError, match=r"expected module:function, such as company.keys:for_events"):
        load_keys(provider)


@pytest.mark.parametrize(
    ("text", "function", "message"),
    [
        ("def events(): pass", "evnts", "has no evnts; did you mean 'events'?"),
        ("def events(): pass", "events", "returned a NoneType; expected bloomparquet.Keys"),
        ("events = Keys(KEY)", "events", "is a Keys; expected a function"),
        ("def events(): raise ValueError(KEY)", "events", "raised ValueError; call it in Python to see why"),
        ("raise RuntimeError(KEY)", "events", "importing keys_of_.* raised RuntimeError"),
        ("import no_module_of_this_name", "events", "there is no module no_module_of_this_name"),
    ],
)
def test_errors_of_providers_do_not_show_their_text(
    module: Callable[[str], str], text: str, function: str, message: str
) -> None:
    name = module(text)
    with pytest.raises(OptionError, match=f"key provider '{name}:{function}'.*{message}") as caught:
        load_keys(f"{name}:{function}")
    assert not reveals(full_text(caught.value), *ALL)

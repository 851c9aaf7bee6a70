"""The keys of encrypted files, as readers are given them.

A key is bytes that the caller has, or what a retriever makes of the key metadata that lies beside each encrypted
module; a KMS is such a retriever (:mod:`bloomparquet.parquet.encryption.keys.kms`). Keys stay where they are: they
are in no ``repr``, no
message and no pickle. A process that needs them gets the name of a function that gives them.

What retrievers, KMS clients and providers raise may have a key in its text. Errors name its type, and do not chain it,
for a traceback would print the text; it is their ``__context__``.

Source: parquet-format ``Encryption.md`` (section 4.3, "Key metadata").
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from bloomparquet.errors import EncryptionError, KeyRetrievalError, MissingKeyError, OptionError, nearest
from bloomparquet.parquet.encryption.keys.material import require_key
from bloomparquet.query.names import names_of

if TYPE_CHECKING:
    from bloomparquet.query.predicate import Column
    from bloomparquet.storage.files import Storage


@runtime_checkable
class FileRetriever(Protocol):
    """A retriever that has to know which file the key is of: its key material may lie beside the file."""

    def for_file(self, storage: Storage, path: str) -> Callable[[bytes], bytes]:
        """Gives the keys of the file at `path`, for as long as that file is what it is now. Reads nothing yet.

        What it returns raises EncryptionError where there is no key, and the storage's OSError.
        """


Retriever = Callable[[bytes], bytes] | FileRetriever
"""Key metadata, as it stands in the file, to the key."""


class Keys:
    """What opens encrypted Parquet files: `footer` is the footer key, `columns` the key of each column that has its
    own, by dotted name or path (a group's name stands for all columns in it), all of 16, 24 or 32 bytes.

    A key that is not among them is asked of `retriever`, which is called with the key metadata that the file has for
    it, by several threads at once. A footer in plain text is verified where there is the footer key, and otherwise
    taken as it is. `aad_prefix`, one for all files, is needed for those that were written with one that they do not
    hold; of files that hold theirs, it is what theirs must be. Files that are not encrypted are taken as they are, and
    so are columns; with ``allow_plaintext_files=False`` such a file does not open, nor does a column that `columns`
    names and that has no key of its own, so that nobody can take the encryption away unnoticed. Two of equal content
    are equal. Raises OptionError for what is no key.

    >>> keys = bp.Keys(footer=b"0123456789abcdef", columns={"user_id": b"fedcba9876543210"})
    >>> outcome = bp.write_table(pa.table({"user_id": range(1000)}), "secret.parquet", bloom="user_id", encryption=keys)
    >>> bp.read_table("secret.parquet", "user_id = 7", keys=keys).to_pylist()
    [{'user_id': 7}]
    """

    __slots__ = ("_aad_prefix", "_allow_plaintext_files", "_columns", "_footer", "_retriever")

    def __init__(
        self,
        footer: bytes | None = None,
        columns: Mapping[str | Column, bytes] | None = None,
        *,
        retriever: Retriever | None = None,
        aad_prefix: bytes | None = None,
        allow_plaintext_files: bool = True,
    ) -> None:
        self._footer = None if footer is None else require_key(footer, "the footer key")
        self._columns = _column_keys({} if columns is None else columns)
        if retriever is not None and not callable(retriever) and not isinstance(retriever, FileRetriever):
            raise OptionError(f"retriever is a {type(retriever).__name__}; expected a function of key metadata to key")
        if aad_prefix is not None and not isinstance(aad_prefix, bytes):
            raise OptionError(f"aad_prefix is a {type(aad_prefix).__name__}; expected bytes")
        self._retriever, self._aad_prefix = retriever, aad_prefix
        self._allow_plaintext_files = bool(allow_plaintext_files)

    @classmethod
    def from_kms(
        cls,
        kms_connection_config: Any,
        kms_client_factory: Callable[[Any], Any],
        *,
        cache_lifetime: timedelta = timedelta(minutes=10),
        read_kms_url: bool = False,
        aad_prefix: bytes | None = None,
        allow_plaintext_files: bool = True,
    ) -> Keys:
        """The keys that a key management service has: of files that ``pyarrow.parquet.encryption.CryptoFactory`` or
        parquet-java's ``PropertiesDrivenCryptoFactory`` wrote.

        Takes what pyarrow takes: a ``KmsConnectionConfig`` (None for one with its defaults), and a function of one to
        a ``KmsClient``. What the service gave is kept for `cache_lifetime`, and the keys of a file for as long as its
        footer is in memory. Where the configuration names no KMS instance, the file's footer does; its URL is taken
        from there only with `read_kms_url`, for clients that check which server they are about to send their access
        token to. Two of equal configuration and the same function are equal. Raises OptionError for what is none of
        these.
        """
        from bloomparquet.parquet.encryption.keys.kms import KmsRetriever

        retriever = KmsRetriever(
            kms_connection_config, kms_client_factory, cache_lifetime=cache_lifetime, read_kms_url=read_kms_url
        )
        return cls(retriever=retriever, aad_prefix=aad_prefix, allow_plaintext_files=allow_plaintext_files)

    def for_file(self, storage: Storage, path: str) -> FileKeys:
        """The keys to the file at `path`, for as long as that file is what it is now. Reads nothing yet."""
        return FileKeys(self, storage, path)

    @property
    def aad_prefix(self) -> bytes | None:
        """The AAD prefix that was given."""
        return self._aad_prefix

    @property
    def allow_plaintext_files(self) -> bool:
        """Whether files and columns that are not encrypted are taken as they are."""
        return self._allow_plaintext_files

    @property
    def given(self) -> tuple[bytes | None, Mapping[str | Column, bytes]]:
        """The footer key and the column keys that were given as bytes."""
        return self._footer, self._columns

    def given_name(self, column: Column) -> str | Column | None:
        """The name under which a key was given for a leaf column: its own before that of a group, and that of an inner
        group before that of an outer one. What is named by its path comes before what may be another column with dots
        in its name."""
        return next((name for name in names_of(column) if name in self._columns), None)

    @property
    def retriever(self) -> Retriever | None:
        """What is asked for the keys that were not given."""
        return self._retriever

    def _contents(self) -> tuple[Any, ...]:
        return self._footer, self._columns, self._retriever, self._aad_prefix, self._allow_plaintext_files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keys) and self._contents() == other._contents()

    def __hash__(self) -> int:
        return hash((self._footer, frozenset(self._columns.items()), self._aad_prefix))  # retrievers need not have one

    def __copy__(self) -> Keys:
        return self

    def __deepcopy__(self, _: Any) -> Keys:
        return self

    def __repr__(self) -> str:
        columns = ", ".join(map(_dotted, self._columns))
        return (
            f"Keys(footer={_given(self._footer)}, columns=({columns}), "
            f"retriever={_given(self._retriever)}, aad_prefix={_given(self._aad_prefix)}, "
            f"allow_plaintext_files={self._allow_plaintext_files})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not pickled; give other processes the name of a function that returns them")


class FileKeys:
    """The keys to one file, as it is now."""

    __slots__ = ("_keys", "_retrieve")

    def __init__(self, keys: Keys, storage: Storage, path: str) -> None:
        retriever = keys.retriever
        self._keys = keys
        self._retrieve = retriever.for_file(storage, path) if isinstance(retriever, FileRetriever) else retriever

    @property
    def aad_prefix(self) -> bytes | None:
        """The AAD prefix that was given."""
        return self._keys.aad_prefix

    def footer_key(self, metadata: bytes | None) -> bytes:
        """The footer key, of which the file has `metadata`. Raises EncryptionError where there is none."""
        return self._keys.given[0] or self._retrieved(metadata, "the footer key")

    def require_no_own(self, column: Column) -> None:
        """EncryptionError where a column that has no key of its own ought to have one."""
        if not self._keys.allow_plaintext_files and self._keys.given_name(column) is not None:
            raise EncryptionError("the column is not under the key that is given for it; is it the right file?")

    def column_key(self, column: Column, metadata: bytes | None) -> bytes:
        """The key of a leaf column that has its own. Raises EncryptionError where there is none."""
        name = self._keys.given_name(column)
        if name is not None:
            return self._keys.given[1][name]
        return self._retrieved(metadata, f"the key of column {_dotted(column)}")

    def _retrieved(self, metadata: bytes | None, what: str) -> bytes:
        if self._retrieve is None:
            raise missing_key(what)
        if metadata is None:
            raise MissingKeyError(
                f"encrypted, and {what} is not given, and the file has no key metadata to retrieve it by"
            )
        try:
            key = self._retrieve(metadata)
        except EncryptionError as error:
            raise KeyRetrievalError(f"{what} could not be retrieved: {error}") from None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, OSError) and isinstance(self._keys.retriever, FileRetriever):
                raise  # of reading what lies beside the file
            raise KeyRetrievalError(
                f"{what} could not be retrieved: the retriever raised {type(error).__name__}"
            ) from None
        try:
            return require_key(key, f"what the retriever gave for {what}")
        except OptionError as error:
            raise KeyRetrievalError(str(error)) from None


def missing_key(what: str) -> MissingKeyError:
    """The error of a key that nobody has given."""
    return MissingKeyError(
        f"encrypted, and {what} is not given; give it in keys (in Spark keyProvider, in a shell --key-provider)"
    )


def load_keys(provider: str) -> Keys:
    """What the function that `provider` names (``"module:function"``) returns.

    Raises OptionError where there is no such function, and where what it returns is no :class:`Keys`.
    """
    module, _, name = provider.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        # Without what it is: somebody may have given a key.
        raise OptionError("key provider: expected module:function, such as company.keys:for_events")
    what = f"key provider {provider!r}"
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise OptionError(f"{what} cannot be imported: there is no module {error.name}") from None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's module raises, exits and panics among it
        raise OptionError(f"{what}: importing {module} raised {type(error).__name__}") from None
    try:
        function = attrgetter(name)(imported)
    except AttributeError:
        raise OptionError(f"{what}: {module} has no {name}{nearest(name, vars(imported))}") from None
    if not callable(function):
        raise OptionError(f"{what} is a {type(function).__name__}; expected a function")
    try:
        keys = function()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
        raise OptionError(f"{what} raised {type(error).__name__}; call it in Python to see why") from None
    if not isinstance(keys, Keys):
        raise OptionError(f"{what} returned a {type(keys).__name__}; expected bloomparquet.Keys")
    return keys


def _column_keys(columns: Mapping[str | Column, bytes]) -> dict[str | Column, bytes]:
    if not isinstance(columns, Mapping):
        raise OptionError(f"columns is a {type(columns).__name__}; expected a mapping of column names to keys")
    found: dict[str | Column, bytes] = {}
    for name, key in columns.items():
        if not isinstance(name, str) and not (isinstance(name, tuple) and name and all(map(_is_text, name))):
            raise OptionError(f"columns has the key of a {type(name).__name__}; expected a column's name, or its path")
        found[name] = require_key(key, f"the key of column {_dotted(name)}")
    return found


def _is_text(part: object) -> bool:
    return isinstance(part, str)


def _dotted(name: str | Column) -> str:
    return name if isinstance(name, str) else ".".join(name)


def _given(value: object) -> str | None:
    return None if value is None else "given"

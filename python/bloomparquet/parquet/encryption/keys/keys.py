"""The keys of encrypted files, as users pass them to readers.

A key is passed as bytes, or a *retriever* makes it from the key metadata that the file stores beside each encrypted
module. :mod:`bloomparquet.parquet.encryption.keys.kms` is the retriever for key management services. Keys appear in no
``repr``, no message and no pickle; another process gets the name of a function that returns them.

The text of an exception that a retriever, a KMS client or a key provider raises may contain a key. So errors name only
its type and do not chain it, since a traceback would print the text. It remains their ``__context__``.

Source: parquet-format ``Encryption.md`` (section 4.3, "Key metadata").
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from bloomparquet.errors import EncryptionError, KeyRetrievalError, MissingKeyError, OptionError, did_you_mean
from bloomparquet.parquet.encryption.keys.material import require_key
from bloomparquet.query.names import names_of

if TYPE_CHECKING:
    from bloomparquet.parquet.encryption.keys.kms import KmsRetriever
    from bloomparquet.query.predicate import Column
    from bloomparquet.storage.files import Storage

    ByColumn = Mapping[str, bytes] | Mapping[Column, bytes] | Mapping[str | Column, bytes]
    Retriever = Callable[[bytes], bytes] | KmsRetriever


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The keys that decrypt encrypted Parquet files. Keys have 16, 24 or 32 bytes.

    `footer`: the footer key. `columns`: the keys of columns with their own key, by dotted name or by path; the name of
    a group applies to all columns in it. `retriever`: called with the key metadata of the file for each key that is not
    given; several threads call it at once.

    `aad_prefix`: required when files were written with a prefix that is not stored in them. If a file stores its
    prefix, it must equal this one.

    A plaintext footer is verified if its key is known, and accepted otherwise. Plaintext files and columns are accepted
    too, unless ``allow_plaintext_files=False``: then a plaintext file, and a column in `columns` without its own key,
    are errors. Otherwise an attacker could replace encrypted data by plaintext unnoticed.

    Equal content makes equal keys. Raises OptionError for an invalid key.

    >>> keys = bp.Keys(footer=b"0123456789abcdef", columns={"user_id": b"fedcba9876543210"})
    >>> outcome = bp.write_table(pa.table({"user_id": range(1000)}), "secret.parquet", bloom="user_id", encryption=keys)
    >>> bp.read_table("secret.parquet", "user_id = 7", keys=keys).to_pylist()
    [{'user_id': 7}]
    """

    footer: bytes | None = None
    columns: ByColumn = field(default_factory=dict)
    _: KW_ONLY
    retriever: Retriever | None = None
    aad_prefix: bytes | None = None
    allow_plaintext_files: bool = True

    def __post_init__(self) -> None:
        retriever, aad_prefix = self.retriever, self.aad_prefix
        if self.footer is not None:
            object.__setattr__(self, "footer", require_key(self.footer, "the footer key"))
        object.__setattr__(self, "columns", _check_columns(self.columns))
        if retriever is not None and not callable(retriever) and not hasattr(retriever, "for_file"):
            raise OptionError(f"retriever is a {type(retriever).__name__}; expected a function of key metadata to key")
        if aad_prefix is not None and not isinstance(aad_prefix, bytes):
            raise OptionError(f"aad_prefix is a {type(aad_prefix).__name__}; expected bytes")

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
        """The keys in a key management service, for files that ``pyarrow.parquet.encryption.CryptoFactory`` or
        parquet-java's ``PropertiesDrivenCryptoFactory`` wrote.

        The arguments are pyarrow's: a ``KmsConnectionConfig`` (None for the defaults), and a function of one to a
        ``KmsClient``. Unwrapped keys are cached for `cache_lifetime`; the keys of a file stay as long as its footer is
        in memory.

        If the configuration names no KMS instance, the file's footer does. The instance's URL is read from the footer
        only with `read_kms_url`: use it only if the client checks which server gets its access token.

        Equal configurations with the same function make equal keys. Raises OptionError for other arguments.
        """
        from bloomparquet.parquet.encryption.keys.kms import KmsRetriever

        retriever = KmsRetriever(
            kms_connection_config, kms_client_factory, cache_lifetime=cache_lifetime, read_kms_url=read_kms_url
        )
        return cls(retriever=retriever, aad_prefix=aad_prefix, allow_plaintext_files=allow_plaintext_files)

    def for_file(self, storage: Storage, path: str) -> FileKeys:
        """The keys of the current version of the file at `path`. Reads nothing yet."""
        return FileKeys(self, storage, path)

    def name_of(self, column: Column) -> str | Column | None:
        """The name in ``columns`` whose key a leaf column has.

        The column's own name comes before a group's, an inner group's before an outer one's, and a path before a
        dotted name.
        """
        return next((name for name in names_of(column) if name in self.columns), None)

    def __hash__(self) -> int:
        # A retriever may be unhashable.
        return hash((self.footer, frozenset(self.columns.items()), self.aad_prefix))

    def __copy__(self) -> Keys:
        return self

    def __deepcopy__(self, _: Any) -> Keys:
        return self

    def __repr__(self) -> str:
        columns = ", ".join(map(_dotted, self.columns))
        return (
            f"Keys(footer={_redact(self.footer)}, columns=({columns}), "
            f"retriever={_redact(self.retriever)}, aad_prefix={_redact(self.aad_prefix)}, "
            f"allow_plaintext_files={self.allow_plaintext_files})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not pickled; give other processes the name of a function that returns them")


class FileKeys:
    """The keys of one version of one file."""

    __slots__ = ("_is_for_file", "_keys", "_retrieve")

    def __init__(self, keys: Keys, storage: Storage, path: str) -> None:
        retriever = keys.retriever
        self._keys = keys
        # A retriever that must know the file, because its key material may be in another file beside it.
        for_file = getattr(retriever, "for_file", None)
        self._is_for_file = for_file is not None
        self._retrieve: Any = for_file(storage, path) if for_file else retriever

    @property
    def aad_prefix(self) -> bytes | None:
        """The AAD prefix, if it was given."""
        return self._keys.aad_prefix

    def footer_key(self, metadata: bytes | None) -> bytes:
        """The footer key; `metadata` is its key metadata in the file. Raises EncryptionError if there is none."""
        return self._keys.footer or self._retrieved(metadata, "the footer key")

    def column_key(self, column: Column, metadata: bytes | None) -> bytes:
        """The key of a leaf column with its own key. Raises EncryptionError if there is none."""
        name = self._keys.name_of(column)
        if name is not None:
            by_name: Mapping[Any, bytes] = self._keys.columns
            return by_name[name]
        return self._retrieved(metadata, f"the key of column {_dotted(column)}")

    def require_no_own_key(self, column: Column) -> None:
        """EncryptionError if a key was given for `column`, which has no key of its own, and plaintext is not
        allowed."""
        if not self._keys.allow_plaintext_files and self._keys.name_of(column) is not None:
            raise EncryptionError("the column is not encrypted with the key given for it; is it the right file?")

    def _retrieved(self, metadata: bytes | None, key_name: str) -> bytes:
        if self._retrieve is None:
            raise missing_key(key_name)
        if metadata is None:
            raise MissingKeyError(
                f"encrypted, but {key_name} is not given, and the file has no key metadata to retrieve it with"
            )
        try:
            key = self._retrieve(metadata)
        except EncryptionError as error:
            raise KeyRetrievalError(f"{key_name} could not be retrieved: {error}") from None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if isinstance(error, OSError) and self._is_for_file:
                raise  # from reading key material beside the file
            raise KeyRetrievalError(
                f"{key_name} could not be retrieved: the retriever raised {type(error).__name__}"
            ) from None
        try:
            return require_key(key, f"what the retriever returned for {key_name}")
        except OptionError as error:
            raise KeyRetrievalError(str(error)) from None


def missing_key(key_name: str) -> MissingKeyError:
    """The error for a key that was not given."""
    return MissingKeyError(
        f"encrypted, but {key_name} is not given; pass it in keys (in Spark keyProvider, on the command line "
        "--key-provider)"
    )


def load_keys(provider: str) -> Keys:
    """Call the function that `provider` names (``"module:function"``) and return its :class:`Keys`.

    Raises OptionError if there is no such function, or if it returns something else.
    """
    module, _, name = provider.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        # Do not quote the value: a user may have passed a key.
        raise OptionError("key provider: expected module:function, such as company.keys:for_events")
    label = f"key provider {provider!r}"
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise OptionError(f"{label} cannot be imported: there is no module {error.name}") from None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's module raises, SystemExit included
        raise OptionError(f"{label}: importing {module} raised {type(error).__name__}") from None
    try:
        function = attrgetter(name)(imported)
    except AttributeError:
        raise OptionError(f"{label}: {module} has no {name}{did_you_mean(name, vars(imported))}") from None
    if not callable(function):
        raise OptionError(f"{label} is a {type(function).__name__}; expected a function")
    try:
        keys = function()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
        raise OptionError(f"{label} raised {type(error).__name__}; call it in Python to see why") from None
    if not isinstance(keys, Keys):
        raise OptionError(f"{label} returned a {type(keys).__name__}; expected bloomparquet.Keys")
    return keys


def _check_columns(columns: ByColumn | None) -> dict[str | Column, bytes]:
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise OptionError(f"columns is a {type(columns).__name__}; expected a mapping of column names to keys")
    checked: dict[str | Column, bytes] = {}
    for name, key in columns.items():
        if not isinstance(name, str) and not (isinstance(name, tuple) and name and all(map(_is_text, name))):
            raise OptionError(f"columns has a key for a {type(name).__name__}; expected a column's name, or its path")
        checked[name] = require_key(key, f"the key of column {_dotted(name)}")
    return checked


def _is_text(part: object) -> bool:
    return isinstance(part, str)


def _dotted(name: str | Column) -> str:
    return name if isinstance(name, str) else ".".join(name)


def _redact(value: object) -> str | None:
    return None if value is None else "given"

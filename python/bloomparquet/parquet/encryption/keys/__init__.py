"""Owns encryption keys: given by the user, or wrapped by a key management service."""

from bloomparquet.parquet.encryption.keys.keys import FileKeys, Keys, load_keys, missing_key

__all__ = ["FileKeys", "Keys", "load_keys", "missing_key"]

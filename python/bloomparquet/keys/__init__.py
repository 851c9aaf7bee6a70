"""The keys to encrypted files: as they are given, as they are retrieved, and from a key management service."""

from bloomparquet.keys.given import FileKeys, Keys, load_keys, missing_key

__all__ = ["FileKeys", "Keys", "load_keys", "missing_key"]

"""The endpoint and the credentials with which the planner opens a storage; no message may show the credentials."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.options import check_options
from pyspark_bloomparquet.jar.hadoop_storage import Translation, translate

_SECRET = re.compile(
    r"(secret[._]key|session[._]token|password|account[._]key|fixed[._]token|sas_token|client[._]secret|access_token)$"
)
_SIGNATURE = re.compile(r"(?:^|[?&])sig=([^&]*)")
_LEAST_SECRET = 8  # characters; shorter texts would blot out parts of names and paths


@dataclass(frozen=True)
class StorageAccess:
    """The endpoint and the credentials of a storage, from the option `storageOptions` or from Hadoop's settings.

    `given` is that option; if it is not None, it is used alone. `settings` are Hadoop's settings for the bucket or
    account, by their general names.
    """

    given: Mapping[str, str] | None = field(default=None, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @lazy_property
    def digest(self) -> str:
        """A hash of the option and the settings. Requests with equal digests share file systems."""
        options = None if self.given is None else sorted(self.given.items())
        return hashlib.sha256(repr((options, sorted(self.settings.items()))).encode("utf-8", "replace")).hexdigest()

    def translate(self, root: str) -> Translation:
        """The storage options for `root`, a scheme and authority. Raises OptionError and PlanError."""
        if self.given is not None:
            check_options(root, self.given)
            return Translation(self.given)
        return translate(root, self.settings)

    def explain(self, message: str, unused: Iterable[str] = ()) -> str:
        """An error message without secrets, with the settings of Spark that the planner did not use."""
        message = self.without_secrets(message)
        names = ", ".join(unused)
        return f"{message}; the planner cannot use {names}: set the option storageOptions" if names else message

    def without_secrets(self, value: Any) -> Any:
        """A value of JSON, without secrets in its texts."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, dict):
            return {name: self.without_secrets(each) for name, each in value.items()}
        return [*map(self.without_secrets, value)] if isinstance(value, list | tuple) else value

    @lazy_property
    def _secrets(self) -> list[str]:
        """The secrets, the longest first: one may contain another."""
        forms = {form for text in self._secret_texts() for form in (text, quote(text, ""), quote(text), unquote(text))}
        return sorted((form for form in forms if len(form) >= _LEAST_SECRET), key=len, reverse=True)

    def _secret_texts(self) -> Iterator[str]:
        given = {**self.settings, **(self.given or {})}
        for name in filter(_SECRET.search, given):
            yield given[name]
        for name in ("sas_token", "fs.azure.sas.fixed.token"):
            for signature in _SIGNATURE.findall(given.get(name, "")):
                yield from (signature, unquote(signature))
        if "proxy_options" in given:
            yield urlsplit(given["proxy_options"]).password or ""

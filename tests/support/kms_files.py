"""Files whose keys are in a key management service, and a clock for cached keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet.encryption as pe

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from tests.support.kms import Kms, Writer, configuration

TABLE = pa.table({"id": list(range(100)), "name": [f"n{i}" for i in range(100)], "open": [i / 7 for i in range(100)]})
COLUMNS = {"of_ids": ["id"], "of_names": ["name"]}


def kms_keys(kms: Kms, **options: Any) -> Keys:
    return Keys.from_kms(None, kms.client, **options)


def material_path(path: str | Path) -> Path:
    """The key material file of a Parquet file."""
    return Path(path).parent / f"_KEY_MATERIAL_FOR_{Path(path).name}.json"


class Clock:
    """Replaces ``time.monotonic``; tests set `now`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def new_material(wrapping: KeyWrapper, master_key_id: str = "footer", *, is_footer: bool = False) -> dict[str, Any]:
    """The key metadata of a new key, parsed."""
    fields: dict[str, Any] = json.loads(wrapping.new_key(master_key_id, is_footer=is_footer)[1])
    return fields


def write_with_material_file(kms: Kms, folder: Path, name: str = "a.parquet") -> str:
    """Write `TABLE` with its key material in another file."""
    return Writer(kms).write(TABLE, folder / name, configuration(COLUMNS, internal_key_material=False))


class StrangeClient(pe.KmsClient):  # type: ignore[misc]
    """A KMS client that returns `answer`."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> Any:
        return self._answer

    unwrap_key = wrap_key


def answering(answer: Any, config: Any) -> StrangeClient:
    return StrangeClient(answer)

"""A table to write encrypted, and the ways to encrypt it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.writing.encryption import Encryption
from tests.support.kms import Kms, configuration

ROWS, GROUPS = 500, 2
N = ROWS * GROUPS


RANDOM = np.random.default_rng(7)
IDS = RANDOM.choice(1 << 50, N, replace=False) * 2


TABLE = pa.table({
    "id": IDS,
    "name": pa.array([f"secret name {i}" if i % 9 else None for i in IDS]),
    "city": pa.array([f"city {i * 7919 % 1009}" for i in range(N)]),
    "st": pa.array([{"x": int(i) ^ 0x5555, "tags": [f"tag {i}", "all"]} for i in IDS]),
})  # fmt: skip
ID, NAME, CITY, X, TAG = range(5)  # leaves


BLOOM = ["id", "name", "city", "st.x"]
FOOTER, FIRST, SECOND = b"the-footer's-key", b"key-of-column-id", b"names'-very-key!"


OWN = {"id": FIRST, "name": SECOND}
"""Keys of columns. The columns city and st are in plain text."""


@dataclass
class Case:
    """A way to encrypt: what writes, what reads, and what pyarrow reads with, if it can."""

    encryption: Encryption | bp.Keys
    keys: bp.Keys
    pyarrow: Any = None
    hidden: tuple[int, ...] = (ID, NAME, CITY, X, TAG)


def explicit(algorithm: str, plaintext_footer: bool, bits: int, *, columns: bool) -> Case:
    footer, own = (FOOTER * 2)[: bits // 8], {name: (key * 2)[: bits // 8] for name, key in OWN.items()}
    keys = bp.Keys(footer, own if columns else None)
    encryption = Encryption(keys, algorithm=algorithm, plaintext_footer=plaintext_footer)
    if columns:
        return Case(encryption, keys, None, (ID, NAME))
    return Case(encryption, keys, pe.create_decryption_properties(footer))


def by_kms(algorithm: str, plaintext_footer: bool, bits: int, *, columns: bool, double: bool) -> Case:
    kms, config = Kms(), pe.KmsConnectionConfig()
    encryption = configuration(
        {"k1": ["id"], "k2": ["name", "st.x"]} if columns else None,
        encryption_algorithm=algorithm,
        plaintext_footer=plaintext_footer,
        double_wrapping=double,
        data_key_length_bits=bits,
    )
    return Case(
        Encryption.from_kms(config, kms.client, encryption),
        bp.Keys.from_kms(config, kms.client),
        pe.CryptoFactory(kms.client).file_decryption_properties(config),
        (ID, NAME, X) if columns else (ID, NAME, CITY, X, TAG),
    )


KINDS = {
    "uniform": lambda *how: explicit(*how, columns=False),
    "columns": lambda *how: explicit(*how, columns=True),
    "kms uniform": lambda *how: by_kms(*how, columns=False, double=True),
    "kms single": lambda *how: by_kms(*how, columns=True, double=False),
    "kms double": lambda *how: by_kms(*how, columns=True, double=True),
}


HOW = [
    pytest.param(kind, ("AES_GCM_V1", "AES_GCM_CTR_V1")[i % 2], plaintext, 128 << i // 2 % 2, id=f"{kind}-{plaintext}")
    for i, (kind, plaintext) in enumerate(itertools.product(KINDS, (False, True)))
]
"""Each kind with an encrypted and with a plaintext footer, each algorithm, and each length of keys."""


def write(path: Path, case: Case | None, table: pa.Table = TABLE, **options: Any) -> str:
    options = {"bloom": BLOOM, "row_group_size": ROWS, "compression": "none", "use_dictionary": ["city"]} | options
    bp.write_table(table, path, encryption=None if case is None else case.encryption, **options)
    return str(path)

"""Modules are decrypted with the key and the position that they were encrypted with, and with nothing else."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher as LibraryCipher
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import EncryptionError, FormatError
from bloomparquet.parquet.bloom_filter.header import header_bytes
from bloomparquet.parquet.encryption.modules import Algorithm, Cipher, Module, module_aad, parse_file_crypto
from bloomparquet.parquet.thrift.definitions import EncryptionAlgorithm, FileCryptoMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct

KEY = bytes(range(16))
AAD = b"prefix" + b"unique"


def test_the_aad_is_prefix_file_type_and_ordinals() -> None:
    assert module_aad(AAD, Module.FOOTER) == AAD + b"\x00"
    assert module_aad(AAD, Module.BLOOM_FILTER_HEADER, 0x0102, 3) == AAD + b"\x08\x02\x01\x03\x00"
    assert module_aad(AAD, Module.BLOOM_FILTER_BITSET, 0, 32767) == AAD + b"\x09\x00\x00\xff\x7f"
    assert module_aad(AAD, Module.DATA_PAGE_HEADER, 1, 2, 3) == AAD + b"\x04\x01\x00\x02\x00\x03\x00"


@pytest.mark.parametrize("ordinals", [(32768, 0), (0, 32768), (0, 0, 32768), (-1, 0), (70000, 0)])
def test_ordinals_beyond_16_bits_are_an_error(ordinals: tuple[int, ...]) -> None:
    with pytest.raises(EncryptionError, match="from 0 to 32767"):
        module_aad(AAD, Module.DATA_PAGE, *ordinals)


@given(st.sampled_from([16, 24, 32]), st.binary(max_size=300), st.sampled_from(list(Module)))
def test_modules_are_those_of_the_specification(size: int, plain: bytes, module: Module) -> None:
    key = os.urandom(size)
    encrypted = Cipher(key, AAD).encrypt(plain, module, 1, 2)
    assert int.from_bytes(encrypted[:4], "little") == len(encrypted) - 4 == len(plain) + 28
    assert AESGCM(key).decrypt(encrypted[4:16], encrypted[16:], module_aad(AAD, module, 1, 2)) == plain
    assert Cipher(key, AAD).decrypt(memoryview(encrypted), module, 1, 2) == plain
    assert Cipher(key, AAD).encrypt(plain, module, 1, 2)[4:16] != encrypted[4:16]


@given(st.binary(max_size=300))
def test_counter_mode_starts_at_one(plain: bytes) -> None:
    encrypted = Cipher(KEY, AAD).encrypt_counter_mode(plain)
    assert int.from_bytes(encrypted[:4], "little") == len(encrypted) - 4 == len(plain) + 12
    decryptor = LibraryCipher(algorithms.AES(KEY), modes.CTR(encrypted[4:16] + b"\0\0\0\1")).decryptor()
    assert decryptor.update(encrypted[16:]) + decryptor.finalize() == plain
    assert Cipher(KEY, AAD).decrypt_counter_mode(memoryview(encrypted)) == plain


@pytest.mark.parametrize(
    ("key", "aad", "position"),
    [
        (bytes(16), AAD, (Module.BLOOM_FILTER_HEADER, 1, 2)),
        (KEY, b"other" + b"unique", (Module.BLOOM_FILTER_HEADER, 1, 2)),
        (KEY, b"prefix" + b"UNIQUE", (Module.BLOOM_FILTER_HEADER, 1, 2)),
        (KEY, AAD, (Module.BLOOM_FILTER_BITSET, 1, 2)),
        (KEY, AAD, (Module.BLOOM_FILTER_HEADER, 2, 1)),
        (KEY, AAD, (Module.BLOOM_FILTER_HEADER, 1)),
        (KEY, AAD, (Module.BLOOM_FILTER_HEADER, 1, 2, 0)),
    ],
)
def test_another_key_file_or_position_decrypts_nothing(key: bytes, aad: bytes, position: tuple[Module, int]) -> None:
    encrypted = Cipher(KEY, AAD).encrypt(header_bytes(64), Module.BLOOM_FILTER_HEADER, 1, 2)
    with pytest.raises(EncryptionError):
        Cipher(key, aad).decrypt(encrypted, *position)


def test_wrong_keys_wrong_prefixes_and_moves_are_told_apart() -> None:
    encrypted = Cipher(KEY, AAD).encrypt(header_bytes(64), Module.BLOOM_FILTER_HEADER, 1, 2)
    position = Module.BLOOM_FILTER_HEADER, 1, 2
    with pytest.raises(EncryptionError, match="bloom filter header cannot be decrypted: the key is wrong"):
        Cipher(bytes(16), AAD).decrypt(encrypted, *position)
    with pytest.raises(EncryptionError, match="though the key is right: aad_prefix is wrong"):
        Cipher(KEY, b"other" + b"unique", supplied=True).decrypt(encrypted, *position)
    with pytest.raises(EncryptionError, match="though the key is right: it was altered, or moved here"):
        Cipher(KEY, AAD).decrypt(encrypted, Module.BLOOM_FILTER_HEADER, 1, 3)
    bitset = Cipher(KEY, AAD).encrypt(bytes(64), Module.BLOOM_FILTER_BITSET, 1, 2)
    with pytest.raises(
        EncryptionError, match="bloom filter bitset cannot be decrypted: its bytes were altered, or moved"
    ):
        Cipher(KEY, AAD).decrypt(bitset, Module.BLOOM_FILTER_BITSET, 2, 2)


@pytest.mark.parametrize(
    "data", [b"", b"\x1c\0\0", b"\x1b\0\0\0" + bytes(27), b"\0\0\0\0", b"\xff\xff\xff\xff" + bytes(60)]
)
def test_wrong_lengths_are_an_error(data: bytes) -> None:
    with pytest.raises(EncryptionError):
        Cipher(KEY, AAD).decrypt(data, Module.FOOTER)


def test_the_signature_covers_every_byte() -> None:
    footer = os.urandom(100)
    cipher = Cipher(KEY, AAD)
    signature = cipher.sign(footer)
    assert len(signature) == 28
    encrypted = AESGCM(KEY).encrypt(signature[:12], footer, AAD + b"\0")
    assert encrypted[-16:] == signature[12:]
    cipher.verify(footer, signature)
    for altered in (footer[:-1], footer + b"\0", bytes([footer[0] ^ 1]) + footer[1:]):
        with pytest.raises(EncryptionError, match="signature is wrong"):
            cipher.verify(altered, signature)
    for at in range(28):
        forged = bytearray(signature)
        forged[at] ^= 1
        with pytest.raises(EncryptionError, match="signature is wrong"):
            cipher.verify(footer, bytes(forged))


@pytest.mark.parametrize("counter_mode", [False, True])
@pytest.mark.parametrize(("prefix", "stored"), [(None, True), (b"p", True), (b"p", False)])
def test_algorithms_are_parsed_as_they_were_written(counter_mode: bool, prefix: bytes | None, stored: bool) -> None:
    algorithm = Algorithm.new(counter_mode_pages=counter_mode, aad_prefix=prefix, store_aad_prefix=stored)
    raw = write_struct(FileCryptoMetaData(encryption_algorithm=algorithm.to_struct(), key_metadata=b"metadata"))
    assert parse_file_crypto(raw + b"more") == (algorithm, b"metadata", len(raw))
    assert algorithm.file_aad(prefix) == (prefix or b"") + algorithm.file_unique
    assert len(algorithm.file_unique) == 8


def test_a_prefix_that_is_not_the_files_is_an_error() -> None:
    none, held = Algorithm(b"u"), Algorithm(b"u", aad_prefix=b"p")
    supplied = Algorithm(b"u", supply_aad_prefix=True)
    assert held.file_aad(None) == held.file_aad(b"p") == b"pu"
    assert supplied.file_aad(b"p") == b"pu"
    with pytest.raises(EncryptionError, match="aad_prefix differs from the AAD prefix in the file"):
        held.file_aad(b"q")
    with pytest.raises(EncryptionError, match="does not store it; set Keys"):
        supplied.file_aad(None)
    with pytest.raises(EncryptionError, match="the file was written without one"):
        none.file_aad(b"p")


def test_unknown_and_damaged_algorithms_are_an_error() -> None:
    with pytest.raises(EncryptionError, match="algorithm 3"):
        Algorithm.parse(read_struct(b"\x3c\x00\x00", EncryptionAlgorithm)[0])
    for union in (b"\x00", b"\x1c\x00\x1c\x00\x00", b"\x15\x0a\x00", b"\x1c\x25\x0a\x00\x00"):
        with pytest.raises(FormatError):
            Algorithm.parse(read_struct(union, EncryptionAlgorithm)[0])
    assert write_struct(Algorithm(b"u").to_struct()) == b"\x1c\x28\x01u\x00\x00"

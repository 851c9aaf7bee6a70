"""Split-block Bloom filters: false is a proof, true is a maybe with a known false positive probability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter, block_index, block_mask, check_blocks
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes
from tests.support.block_filters import Hashes, filled, values

Words = npt.NDArray[np.uint32]

SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)

# From the tests of arrow-rs: the values "a0" to "a9", written by parquet-java.
A0_TO_A9 = bytes.fromhex("c80150144044086d062504439050602008842b21000563410200e02c404e6004")

# Mostly few, and some on each side of the limits of the insert methods.
block_counts = st.one_of(st.integers(1, 70), st.sampled_from([1000, 1024, 4095, 4096, 4097, 5000, 8192, 12_289]))
hash_lists = st.lists(st.integers(0, 2**64 - 1), max_size=200).map(lambda values: np.array(values, dtype=np.uint64))


class ReferenceFilter:
    """The filter of BloomFilter.md in plain Python: eight integers per block, one hash at a time."""

    def __init__(self, n_blocks: int) -> None:
        self.blocks = [[0] * 8 for _ in range(n_blocks)]

    def block_and_mask(self, value: int) -> tuple[list[int], list[int]]:
        block = self.blocks[((value >> 32) * len(self.blocks)) >> 32]
        key = value & 0xFFFFFFFF
        return block, [1 << ((key * salt & 0xFFFFFFFF) >> 27) for salt in SALTS]

    def insert(self, value: int) -> None:
        block, mask = self.block_and_mask(value)
        for word in range(8):
            block[word] |= mask[word]

    def check(self, value: int) -> bool:
        block, mask = self.block_and_mask(value)
        return all(bits & bit for bits, bit in zip(block, mask))

    def to_bytes(self) -> bytes:
        return b"".join(word.to_bytes(4, "little") for block in self.blocks for word in block)


def test_a_filter_of_parquet_java_holds_a0_to_a9() -> None:
    hashes = xxh64_bytes([f"a{digit}".encode() for digit in range(10)])
    assert SplitBlockBloomFilter.from_bytes(A0_TO_A9).check(hashes).all()
    assert filled(1, hashes).to_bytes() == A0_TO_A9


@given(block_counts, hash_lists, hash_lists)
def test_bits_and_answers_are_those_of_the_reference(n_blocks: int, inserted: Hashes, others: Hashes) -> None:
    reference = ReferenceFilter(n_blocks)
    for value in inserted.tolist():
        reference.insert(value)
    made = filled(n_blocks, inserted)
    assert made.to_bytes() == reference.to_bytes()
    assert made.check(inserted).all()
    assert made.check(others).tolist() == [reference.check(value) for value in others.tolist()]


@pytest.mark.parametrize("n_blocks", [1, 3, 4096, 4097, 3 * 4096, 20_000])
@pytest.mark.parametrize("count", [100, 1100, 40_000])
def test_every_way_of_inserting_sets_the_same_bits(n_blocks: int, count: int) -> None:
    # The last hash of one block and the first of the next, which is where a sorted array is cut.
    firsts = [-(-(block << 32) // n_blocks) << 32 for block in range(0, n_blocks, 256)]
    edges = [first + step for first in firsts[1:] for step in (-1, 0)]
    hashes = np.concatenate([values(0, count), np.array([*edges, 0, 2**32 - 1, 2**64 - 1], dtype=np.uint64)])
    expected = np.zeros((n_blocks, 8), np.uint32)
    np.bitwise_or.at(expected, block_index(hashes, n_blocks), block_mask(hashes))
    for shaped in (hashes, hashes[:, np.newaxis]):
        assert filled(n_blocks, shaped).to_bytes() == expected.tobytes()


@given(st.integers(1, 40), st.integers(0, 5), hash_lists)
def test_a_folded_filter_equals_one_of_fewer_blocks(odd: int, times: int, hashes: Hashes) -> None:
    folded = filled(odd << times, hashes).fold(times)
    assert folded.check(hashes).all()
    assert folded.to_bytes() == filled(odd, hashes).to_bytes()


@given(st.integers(1, 40), st.integers(0, 5), hash_lists, hash_lists)
def test_a_merged_filter_has_both_and_the_smaller_size(small: int, times: int, first: Hashes, second: Hashes) -> None:
    one, other = filled(small, first), filled(small << times, second)
    both = filled(small, np.concatenate([first, second])).to_bytes()
    assert one.merge(other).to_bytes() == both
    assert other.merge(one).to_bytes() == both
    assert one.merge(other).check(np.concatenate([first, second])).all()
    assert one.to_bytes() == filled(small, first).to_bytes()


@pytest.mark.parametrize("n_blocks", [1, 2, 1023, (1 << 20) + 1, 1 << 22])
def test_filters_of_millions_of_blocks_have_their_values(n_blocks: int) -> None:
    made = SplitBlockBloomFilter.empty(n_blocks)
    inserted = np.concatenate([values(0, 2000), np.array([0, 2**64 - 1], dtype=np.uint64)])  # first and last block
    made.insert(inserted)
    assert (made.n_blocks, made.num_bytes) == (n_blocks, 32 * n_blocks)
    assert made.check(inserted).all()
    assert made.blocks[0].any()
    assert made.blocks[-1].any()


@pytest.mark.parametrize("count", [0, 1, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, 100_003])
def test_check_is_right_at_chunk_borders(count: int) -> None:
    made = filled(64, values(0, count)[::3])
    expected = check_blocks(made.blocks[block_index(values(0, count), 64)], block_mask(values(0, count)))
    assert made.check(values(0, count)).tolist() == expected.tolist()


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=5), st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_many_filters_at_once_check_like_each_alone(counts: list[int], listed: list[int]) -> None:
    hashes = np.array(listed, dtype=np.uint64)
    filters = [filled(count, hashes[at :: len(counts)]) for at, count in enumerate(counts)]
    index = block_index(hashes, np.array(counts)[:, np.newaxis])
    assert index.shape == (len(counts), len(hashes))
    fetched = np.stack([each.blocks[row] for each, row in zip(filters, index)])
    assert check_blocks(fetched, block_mask(hashes)).tolist() == [each.check(hashes).tolist() for each in filters]


@pytest.mark.parametrize("offset", [0, 1, 4, 15, 16])
def test_unaligned_bytes_are_read(offset: int) -> None:
    made = filled(9, values(0, 100))
    buffer = b"\xaa" * offset + made.to_bytes() + b"\xaa" * 7
    read = SplitBlockBloomFilter.from_bytes(memoryview(buffer)[offset:-7])
    assert read.blocks.flags.aligned
    assert read.check(values(0, 1000)).tolist() == made.check(values(0, 1000)).tolist()
    assert read.to_bytes() == made.to_bytes()
    read.insert(values(100, 100))
    assert read.check(values(100, 100)).all()
    assert buffer == b"\xaa" * offset + made.to_bytes() + b"\xaa" * 7


def test_bytes_are_shared_until_the_first_insert() -> None:
    buffer = np.zeros((4, 8), dtype="<u4")
    read = SplitBlockBloomFilter.from_bytes(buffer.data.cast("B"))
    assert np.shares_memory(read.blocks, buffer)
    read.insert(values(0, 10))
    assert read.bits_set
    assert not np.shares_memory(read.blocks, buffer)
    assert not buffer.any()


def test_inserting_does_not_change_derived_filters() -> None:
    made = filled(8, values(0, 5))
    copies = [made.fold(0), made.merge(made), made.merge(SplitBlockBloomFilter.empty(8))]
    before = made.to_bytes()
    made.insert(values(5, 50))
    assert [copy.to_bytes() for copy in copies] == [before] * 3
    with pytest.raises(ValueError, match="read-only"):
        made.blocks[0, 0] = 1


@pytest.mark.parametrize("size", [0, 1, 31, 33, 63, 1000])
def test_a_bitset_of_partial_blocks_is_an_error(size: int) -> None:
    with pytest.raises(FormatError, match=f"a bitset of {size} bytes: expected a multiple of 32"):
        SplitBlockBloomFilter.from_bytes(bytes(size))


@pytest.mark.parametrize("n_blocks", [-1, 0, (1 << 22) + 1, 1 << 60])
def test_a_block_count_out_of_range_allocates_nothing(n_blocks: int) -> None:
    with pytest.raises(LimitError, match=f"a filter of {n_blocks} blocks: expected 1 to 4194304"):
        SplitBlockBloomFilter.empty(n_blocks)


@pytest.mark.parametrize(("n_blocks", "times"), [(1, 1), (3, 1), (12, 3), (8, -1)])
def test_folding_an_odd_number_of_blocks_is_an_error(n_blocks: int, times: int) -> None:
    with pytest.raises(LimitError, match=f"cannot halve {n_blocks} blocks {times} times"):
        SplitBlockBloomFilter.empty(n_blocks).fold(times)


@pytest.mark.parametrize(("one", "other"), [(2, 3), (3, 2), (1, 3), (12, 2)])
def test_merging_filters_of_unrelated_sizes_is_an_error(one: int, other: int) -> None:
    with pytest.raises(LimitError, match=f"cannot merge filters of {one} and {other} blocks"):
        SplitBlockBloomFilter.empty(one).merge(SplitBlockBloomFilter.empty(other))


@pytest.mark.parametrize("blocks", [np.zeros(8, "<u4"), np.zeros((2, 4), "<u4"), np.zeros((2, 8), "<i4")])
def test_blocks_of_another_shape_are_an_error(blocks: npt.NDArray[np.uint32]) -> None:
    with pytest.raises(FormatError, match="expected"):
        SplitBlockBloomFilter(blocks)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (np.arange(3), "int64"),
        (np.zeros(3), "float64"),
        ([1, 2], "list"),
        (np.zeros(3, np.uint32), "uint32"),
        (5, "int"),
    ],
)
def test_unhashed_values_are_an_error(wrong: Hashes, kind: str) -> None:
    bloom = SplitBlockBloomFilter.empty(1)
    for use in (bloom.check, bloom.insert):
        with pytest.raises(TypeError, match=f"the hashes are {kind}; expected an array of uint64 hashes"):
            use(wrong)


def test_a_filter_is_shown_by_its_size_and_bits() -> None:
    assert repr(SplitBlockBloomFilter.from_bytes(b"\x01" * 64)) == "SplitBlockBloomFilter(n_blocks=2, bits_set=64)"


def test_check_gives_booleans_in_the_shape_of_the_hashes() -> None:
    made = filled(16, values(0, 12))
    assert made.check(values(0, 12).reshape(3, 4)).shape == (3, 4)
    assert made.check(values(0, 12)[::-2]).all()
    assert made.check(np.array(5, dtype=np.uint64)).shape == ()
    assert made.check(values(0, 12)).dtype == np.bool_


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_blocks_are_checked_in_every_memory_layout(layout: Callable[[Words], Words]) -> None:
    hashes = values(0, 40)
    made = filled(16, hashes[::2])
    blocks, masks = layout(made.blocks[block_index(hashes, 16)]), layout(block_mask(hashes))
    assert check_blocks(blocks, masks).tolist() == made.check(hashes).tolist()


@pytest.mark.parametrize("n_blocks", [1, 4])
def test_blocks_may_lie_apart_from_each_other(n_blocks: int) -> None:
    made = filled(n_blocks, values(0, 50))
    apart = np.zeros((3 * n_blocks, 16), "<u4")[::3, ::2]
    apart[:] = made.blocks
    for blocks in (apart, np.asfortranarray(made.blocks)):
        assert SplitBlockBloomFilter(blocks).to_bytes() == made.to_bytes()


def test_only_the_first_insert_copies_the_blocks() -> None:
    of_others = SplitBlockBloomFilter.from_bytes(bytes(64))
    of_others.insert(values(0, 1))
    own = SplitBlockBloomFilter.empty(2)
    for made in (of_others, own):
        before = made.blocks
        made.insert(values(1, 1))
        assert np.shares_memory(made.blocks, before)


def test_a_bitset_beyond_the_limit_is_an_error() -> None:
    with pytest.raises(LimitError, match="4194305 blocks"):
        SplitBlockBloomFilter.from_bytes(np.zeros((1 << 27) + 32, np.uint8).data)

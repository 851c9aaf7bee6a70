"""The sizes that split-block Bloom filters need for a false positive probability (fpp).

With n distinct values, m bits and eight bits per value, a classic Bloom filter has

    fpp = (1 - e^(-8n/m))^8        hence        m = -8n / ln(1 - fpp^(1/8))

and writers round m up to a power of two: `optimal_num_bytes`. A split-block filter needs more bits (at 1 %, 10.5
instead of 9.7 per value), because chance spreads the values over the blocks, and fuller blocks add more errors than
emptier ones save. `expected_fpp` computes the real fpp: 100,000 values in 128 KiB give 1.02 %.

Twice the values in the same filter cost far more than twice the fpp: in 1,024 blocks 13,107 values give 0.04 %, 26,214
give 1.26 %, and 52,428 give 18 %. A filter sized for too many values costs only bytes, and folding gives them back:
`fold` halves a filter into exactly the one that a writer with half the blocks would have made.

Sources: parquet-format BloomFilter.md (the measured bits); Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient
Bloom Filters", 2007 (blocks, and why they cost bits).
"""

from __future__ import annotations

import math

from bloomparquet.errors import LimitError, OptionError

BYTES_PER_BLOCK = 32
MAX_BLOCKS = 1 << 22
"""128 MiB: the limit that parquet-java, Arrow C++ and arrow-rs share."""

TOLERANCE = 1.25
"""A filter's fpp may be this many times the requested fpp before the filter is doubled. So 100,000 values at 1 % get
the 128 KiB that every writer gives them, although that is 1.02 %."""


def bits_per_value(fpp: float) -> float:
    """Bits per distinct value for the false positive probability `fpp`: -8 / ln(1 - fpp^(1/8)).

    All writers use this classic formula; the module's docstring says by how much it falls short. Raises OptionError
    unless 0 < fpp < 1.
    """
    if not 0.0 < fpp < 1.0:
        raise OptionError(f"fpp is {fpp}; expected a number above 0 and below 1, such as 0.01")
    # The eighth root of the largest numbers below 1 rounds to 1, whose logarithm would be that of 0.
    return -8.0 / math.log1p(-min(fpp**0.125, math.nextafter(1.0, 0.0)))


def optimal_num_bytes(ndv: float, fpp: float) -> int:
    """The size in bytes of a filter for `ndv` distinct values at `fpp`: a power of two from 32 bytes to 128 MiB.

    Arrow C++ reads only sizes that are powers of two. At the upper limit the fpp may be worse than requested: see
    `expected_fpp`. Raises OptionError unless ndv >= 0 and 0 < fpp < 1.
    """
    if not ndv >= 0:
        raise OptionError(f"ndv is {ndv}; expected 0 or more")
    # 2^63 values exceed the largest filter at every fpp. Larger integers may not fit into a float.
    least = math.ceil(bits_per_value(fpp) * min(ndv, 1 << 63) / 8)
    within = max(BYTES_PER_BLOCK, min(least, MAX_BLOCKS * BYTES_PER_BLOCK))
    return 1 << (within - 1).bit_length()


def smallest_num_bytes(ndv: float, fpp: float) -> int:
    """The size in bytes of the smallest filter whose expected fpp for `ndv` distinct values is at most `TOLERANCE`
    times `fpp`. Limits and errors are those of `optimal_num_bytes`, which uses the formula."""
    # A quarter of the formula's size is below what its rounding and the tolerance together can save.
    num_bytes, most = max(optimal_num_bytes(ndv, fpp) // 4, BYTES_PER_BLOCK), MAX_BLOCKS * BYTES_PER_BLOCK
    values = math.ceil(min(ndv, 1 << 63))
    while num_bytes < most and expected_fpp(values, num_bytes // BYTES_PER_BLOCK) > TOLERANCE * fpp:
        num_bytes *= 2
    return num_bytes


def expected_fpp(ndv: int, n_blocks: int) -> float:
    """The expected false positive probability of `n_blocks` blocks with `ndv` distinct values.

    Exact for random hashes: the mean of (1 - (31/32)^i)^8 over the number i of values in a block, which is binomial
    with probability 1/n_blocks (after Putze et al.). Results below 1e-12 are rounding noise, but never negative.
    Raises LimitError unless 1 <= n_blocks <= 2^22.
    """
    require_block_count(n_blocks)
    # Expand the eighth power; the mean of z^i of a binomial count is (1 - (1 - z) / n_blocks)^ndv.
    means = (math.exp(ndv * math.log1p(((31 / 32) ** j - 1.0) / n_blocks)) for j in range(9))
    return max(math.fsum((-1) ** j * math.comb(8, j) * mean for j, mean in enumerate(means)), 0.0)


def require_block_count(n_blocks: int) -> None:
    """Raise LimitError unless 1 <= n_blocks <= 2^22."""
    if not 1 <= n_blocks <= MAX_BLOCKS:
        raise LimitError(
            f"a filter of {n_blocks} blocks: expected 1 to {MAX_BLOCKS} ({MAX_BLOCKS * BYTES_PER_BLOCK} bytes)"
        )

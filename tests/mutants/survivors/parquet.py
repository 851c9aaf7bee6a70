"""Surviving mutants of the values and Bloom filters of Parquet."""

from __future__ import annotations

from tests.mutants.survivors.explanation import ANY_NEGATIVE, EQUAL_LENGTHS, FLOAT64, explained

_ENCODING = "parquet/values/encoding.py"
_RANGES = "parquet/values/ranges.py"
_SPLIT_BLOCK = "parquet/bloom_filter/split_block.py"
_UPPER_CASE = "numpy takes it in either case"
_BOOLS = "numpy compares arrays, also of objects, to booleans"
_FITTED = "the search begins at another number of folds, and ends at the same one"

EXPLAINED = (
    explained(
        _ENCODING,
        "parquet_family",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="no table of physical types has either",
    ),
    explained(
        _ENCODING,
        "_order_keys",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="a group has the family `other`, for which the function has returned",
    ),
    explained(_ENCODING, "_order_keys", ", strict=True", ", ", ", strict=False", ", strict=None", why=EQUAL_LENGTHS),
    explained(_ENCODING, "bounds_of", ", strict=True", ", ", ", strict=False", ", strict=None", why=EQUAL_LENGTHS),
    explained(
        _ENCODING,
        "_order_keys",
        'int.from_bytes(value, "big", signed=True)',
        "int.from_bytes(value, signed=True)",
        why="big-endian is Python's default, from 3.11 on",
    ),
    explained(
        _ENCODING,
        "_hash",
        "stored.itemsize == 4",
        "stored.itemsize == 5",
        why="xxh64_bytes gives the same hashes of the same bytes, but is slower",
    ),
    explained(
        "parquet/bloom_filter/xxh64.py",
        "_xxh64_items",
        "reshape(-1)",
        "reshape(-2)",
        why=ANY_NEGATIVE,
    ),
    explained(
        _ENCODING,
        "bounds_of",
        "lows is None or highs is None",
        "lows is None and highs is None",
        why="both depend on the column alone",
    ),
    explained(_ENCODING, "bounds_of", "<= highs[0], np.bool_)", "<= highs[0], None)", "<= highs[0], )", why=_BOOLS),
    explained(
        _ENCODING,
        "_order_keys",
        'value is not None and ok else b""',
        'value is not None or ok else b""',
        'value is not None and ok else b"XXXX"',
        why="nobody looks at a bound that is not usable",
    ),
    explained(_ENCODING, "_order_keys", "keys.astype(np.float64)", "keys.astype(None)", why=FLOAT64),
    explained(
        _ENCODING,
        "_hash",
        "stored.itemsize == 8",
        "stored.itemsize == 9",
        why="xxh64_bytes gives the same hashes of the same bytes, but is slower",
    ),
    explained(
        _ENCODING,
        "_hash",
        'width, "big", signed=True',
        "width, signed=True",
        why="big-endian is Python's default, from 3.11 on",
    ),
    explained(_ENCODING, "_physical_range", "return 0, 1", "return 0, 2", why="a boolean is 0 or 1"),
    *(
        explained(_ENCODING, function, old, new, why="without a length, _is_ambiguous has ended the encoding")
        for function, old, new in (
            ("_hash", "type_length or 0", "type_length or 1"),
            ("_physical_range", "type_length or 1", "type_length or 2"),
        )
    ),
    explained(
        _ENCODING,
        "_unexpected",
        'f"no encoding of {parquet_family(node)} values is known for {node.physical_type} column {node.name}"',
        "None",
        'f"no encoding of {parquet_family(None)} values is known for {node.physical_type} column {node.name}"',
        why="the text of an error",
    ),
    *(
        explained(_RANGES, "is_held_by", old, *new, why="integers have 8, 16, 32 or 64 bits, floats hold 11, 24 or 53")
        for old, *new in (
            ("return bits - is_signed <=", "return bits + is_signed <=", "return bits - is_signed <"),
            (".nmant + 1", ".nmant - 1", ".nmant + 2"),
        )
    ),
    *(
        explained(_SPLIT_BLOCK, f"SplitBlockBloomFilter.{function}", "reshape(-1", "reshape(-2", why=ANY_NEGATIVE)
        for function in ("__init__", "from_bytes", "insert", "_insert_range", "check")
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.__init__",
        "reshape(-1)",
        "reshape(None)",
        why="every use takes single numbers of the array, or another view of it",
    ),
    explained(_SPLIT_BLOCK, "SplitBlockBloomFilter.__init__", 'requirements="C"', 'requirements="c"', why=_UPPER_CASE),
    explained(_SPLIT_BLOCK, "check_blocks", 'order="C"', 'order="c"', why=_UPPER_CASE),
    *(
        explained(_SPLIT_BLOCK, "SplitBlockBloomFilter.insert", old, *new, why="another way to the same bits")
        for old, *new in (
            ("self.n_blocks > _INSERT_BLOCKS", "self.n_blocks >= _INSERT_BLOCKS"),
            ("4 * flat.size < self.n_blocks", "5 * flat.size < self.n_blocks", "4 * flat.size <= self.n_blocks"),
            ("start < stop", "start <= stop"),
        )
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "self.n_blocks & -self.n_blocks",
        "self.n_blocks | -self.n_blocks",
        why="n & -n is the lowest set bit of n, and n | -n is minus it",
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "if math.isinf(ndv) else",
        "if (math.isinf(ndv)) and False else",
        "if (math.isinf(ndv)) or True else",
        why=_FITTED,
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "// enough, 1).bit_length() - 1",
        "// enough, 1).bit_length() + 1",
        "// enough, 2).bit_length() - 1",
        why=_FITTED,
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "folded.estimated_fpp > goal",
        "folded.estimated_fpp >= goal",
        why="a fold too few is made up for by the next loop",
    ),
    explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.merge",
        "if ratio > 1 else",
        "if (ratio > 1) or True else",
        "if ratio >= 1 else",
        why="no fold gives a copy",
    ),
)

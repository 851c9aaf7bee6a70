"""Surviving mutants of Python files that no test can kill, and why."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutants.python_mutants import Change
from tests.mutants.targets import CORE


class Explained(NamedTuple):
    """Mutants of `function` that change no answer: those that put one of `new` in place of `old`, a part of a line."""

    path: str
    function: str
    old: str
    new: tuple[str, ...]
    why: str

    def explains(self, change: Change) -> bool:
        old = change.old.replace("\n)", ")") if "\n)" not in change.new else change.old  # mutmut may join these lines
        if change.function != self.function or old.count(self.old) != 1:
            return False
        return any(old.replace(self.old, new) == change.new for new in self.new)


def _explained(path: str, function: str, old: str, *new: str, why: str) -> Explained:
    return Explained(CORE + path, function, old, new, why)


_INT64 = "numpy makes int64 of Python's integers on the 64-bit systems that Spark runs on"
_EQUAL_LENGTHS = "both have the same length by construction"
_STATISTICS, _ORDERING = "planning/evidence/statistics.py", "query/ordering.py"
_TILES = "planning/evidence/tiles.py"
_ONE_INDEX = "the tiles of an index lie in one place, so they all have the same number of threads"
_NORMAL_FORM = "query/normal_form.py"
_ENCODING = "parquet/values/encoding.py"
_CLOCK_CHANGES, _DOMAINS = "query/clock_changes.py", "query/domains.py"
_JUDGE, _LOOKUP = "planning/judge.py", "planning/index/lookup.py"
_BOOLEANS = "comparisons give booleans, and numpy and Arrow take None for False"
_CAST_BY_ARROW = "Arrow casts the literals to the type of the column, without loss"
_SPLIT_BLOCK = "parquet/bloom_filter/split_block.py"
_ORC_ENCODING, _ORC_BLOOM = "orc/encoding.py", "orc/bloom_filter.py"
_ANY_NEGATIVE = "numpy takes every negative length for the one that it computes"
_UPPER_CASE = "numpy takes it in either case"
_FLOAT64 = "numpy makes float64 of None"
_BOOLS = "numpy compares arrays, also of objects, to booleans"
_FILTERS, _FOLDED = "planning/parquet/filters.py", "planning/parquet/folded_filters.py"
_WHOLE = "sizes are whole blocks, and the result becomes an integer again"
_FITTED = "the search begins at another number of folds, and ends at the same one"

EXPLAINED = (
    _explained(
        _STATISTICS,
        "_case_candidates",
        "len(encoded.hashes), np.int64",
        "len(encoded.hashes), None",
        "len(encoded.hashes), ",
        why=_INT64,
    ),
    _explained(
        _TILES,
        "TiledFilters.replaced",
        ", -1], np.int32)",
        ", -1], None)",
        ", -1], )",
        why="the numbers are put into an array of int32",
    ),
    _explained(_TILES, "TiledFilters.ask", "self.tiles[:1]", "self.tiles[:2]", why=_ONE_INDEX),
    _explained(_TILES, "TiledFilters._fetch", "self.tiles[0].slices", "self.tiles[1].slices", why=_ONE_INDEX),
    _explained(
        _TILES,
        "TiledFilters._ask_tile",
        "(first == low).all() and (last == high).all()",
        "None",
        "(first != low).all() and (last == high).all()",
        "(first == low).all() and (last != high).all()",
        why="a shortcut, which is then never taken: the loop below gives the same answers",
    ),
    _explained(
        _TILES, "TiledFilters._ask_tile", ", axis=0)", ", )", why="numpy reduces along the first axis by default"
    ),
    _explained(
        _TILES,
        "_by_tile",
        "bool((tile[1:] >= tile[:-1]).all())",
        "(bool((tile[1:] >= tile[:-1]).all())) and False",
        "bool(None)",
        "bool((tile[1:] > tile[:-1]).all())",
        why="a shortcut: sorting what is sorted changes nothing",
    ),
    _explained(
        _TILES,
        "_by_tile",
        ', kind="stable"',
        ", kind=None",
        ", ",
        ', kind="STABLE"',
        why="the order within a tile changes no answer",
    ),
    _explained(_TILES, "_by_tile", ", strict=True", ", ", ", strict=False", ", strict=None", why=_EQUAL_LENGTHS),
    _explained(
        _NORMAL_FORM,
        "weaken",
        ", strict=True",
        ", ",
        ", strict=False",
        ", strict=None",
        why="one child is made of each child",
    ),
    _explained(
        _NORMAL_FORM,
        "_normalize_leaf",
        "None not in leaf.values",
        "(None not in leaf.values) and False",
        why="a shortcut: without None, the other branch copies the values",
    ),
    _explained(
        _ORDERING,
        "ValueOrder.point",
        "number == -math.inf",
        "number == +math.inf",
        why="infinity has returned, and minus infinity is less than `low`",
    ),
    _explained(
        _ORDERING,
        "ValueOrder._stored",
        '"boolean"',
        '"XXbooleanXX"',
        '"BOOLEAN"',
        why="booleans are neither NaN nor fractions, so they are returned as they are at the end too",
    ),
    _explained(
        _ORDERING,
        "ValueOrder._stored",
        'family != "time"',
        'family != "XXtimeXX"',
        'family != "TIME"',
        why="times of day are not negative, so all are greater than the oldest timestamp",
    ),
    _explained(
        _ORDERING,
        "ValueOrder._integer_keys",
        "np.array(stored, dtype) if set(map(type, stored)) == {int} else None",
        "None",
        "np.array(stored, dtype) if (set(map(type, stored)) == {int}) and False else None",
        why="a shortcut: the loop below gives the same keys",
    ),
    *(
        _explained(_ORDERING, "ValueOrder._integer_keys", old, new, why="the shortcut is not taken: the same keys")
        for old, new in (
            ("high > 2**64", "high > 2 * 64"),
            ("keys < low", "keys <= low"),
            ("keys > high", "keys >= high"),
        )
    ),
    *(
        _explained(
            _ORDERING,
            "ValueOrder._integer_keys",
            old,
            new,
            why="integers have 32 or 64 bits, and a decimal's range is one of whole bytes, as wide below zero as above",
        )
        for old, new in (
            ("high > 2**64", "high >= 2**64"),
            ("high > 2**64", "high > 2**65"),
            (" or low < -(2**63)", " and low < -(2**63)"),
            ("high >= 2**64", "high > 2**64"),
            ("high >= 2**64", "high >= 3**64"),
            ("high >= 2**64", "high >= 2**65"),
            ("-(2**63)", "-(3**63)"),
            ("-(2**63)", "-(2**64)"),
        )
    ),
    _explained(
        _ORDERING,
        "ValueOrder._float_keys",
        "(ordered, np.float64)",
        "(ordered, None)",
        "(ordered, )",
        why="numpy makes float64 of Python's floats, and of an empty list",
    ),
    _explained(
        _ORDERING,
        "exact_values",
        '"UTC"',
        '"XXUTCXX"',
        '"utc"',
        why="without a zone, no value is left that needs one",
    ),
    _explained(
        _ORDERING,
        "_depends_on_reader",
        "2**53 <= abs(value)",
        "2**54 <= abs(value)",
        "2**53 < abs(value)",
        why="up to 2**54, the text of a whole float is the number itself",
    ),
    _explained(
        _ORDERING,
        "_float_point",
        "value > 0",
        "value >= 0",
        "value > 1",
        why="only numbers beyond 1e308 overflow",
    ),
    _explained(
        _ORDERING,
        "_integral",
        "value.denominator == 1",
        "(value.denominator == 1) and False",
        why="a whole Fraction is compared and floored as its integer is",
    ),
    _explained(_ORDERING, "_rounds_to_whole", "< 2**1000", "<= 2**1000", why="a Fraction here is never whole"),
    _explained(
        _ENCODING,
        "parquet_family",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="no table of physical types has either",
    ),
    _explained(
        _ENCODING,
        "_order_keys",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="a group has the family `other`, for which the function has returned",
    ),
    _explained(_ENCODING, "_order_keys", ", strict=True", ", ", ", strict=False", ", strict=None", why=_EQUAL_LENGTHS),
    _explained(_ENCODING, "bounds_of", ", strict=True", ", ", ", strict=False", ", strict=None", why=_EQUAL_LENGTHS),
    _explained(
        _ENCODING,
        "_order_keys",
        'int.from_bytes(value, "big", signed=True)',
        "int.from_bytes(value, signed=True)",
        why="big-endian is Python's default, from 3.11 on",
    ),
    _explained(
        _ENCODING,
        "_hash",
        "stored.itemsize == 4",
        "stored.itemsize == 5",
        why="xxh64_bytes gives the same hashes of the same bytes, but is slower",
    ),
    _explained(
        _CLOCK_CHANGES,
        "_is_moved",
        "hours=25",
        "hours=26",
        why="no zone has another clock change in the hour between",
    ),
    _explained(
        _DOMAINS,
        "_Discrete.at_most",
        "stored < self.high",
        "stored <= self.high",
        why="all values are at most `high`, which Arrow compares then",
    ),
    *(
        _explained(
            _DOMAINS,
            "_Discrete.floor",
            old,
            *new,
            why="infinities and NaN alone come here, and all integers out of range are compared alike",
        )
        for old, new in (
            ("self.low - 1", ("self.low - 2",)),
            ("literal < 0", ("literal <= 0", "literal < 1")),
            ("self.high + 1", ("self.high + 2",)),
        )
    ),
    *(
        _explained(_DOMAINS, "_Discrete.floor", old, new, why="a shortcut: Fractions give the same integers")
        for old, new in (("type(literal) is int", "type(None) is int"), ("self.factor == 1", "self.factor == 2"))
    ),
    _explained(
        _DOMAINS,
        "_Discrete.scalars",
        "in stored], self.kind)",
        "in stored], None)",
        "in stored], )",
        why=_CAST_BY_ARROW,
    ),
    _explained(
        _DOMAINS,
        "_Floats.at_most",
        "literal > 0",
        "literal >= 0",
        "literal > 1",
        why="only integers beyond 1e308 come here",
    ),
    _explained(
        _DOMAINS,
        "_Floats.contains",
        "numbers, pa.float64()",
        "numbers, None",
        "numbers, ",
        why="pyarrow makes float64 of Python's floats, and a set without values contains none",
    ),
    _explained(
        _DOMAINS,
        "_Floats.contains",
        ", False))",
        ", None))",
        why="the caller makes NULL of the answers for NULL",
    ),
    _explained(_DOMAINS, "_Bytes.equal", "literal, self.kind", "literal, None", "literal, ", why=_CAST_BY_ARROW),
    _explained(_DOMAINS, "_Bytes.at_most", "literal, self.kind", "literal, None", "literal, ", why=_CAST_BY_ARROW),
    _explained(
        _DOMAINS,
        "domain_of",
        "plain, 0, 1,",
        "plain, 0, 2,",
        why="a literal for booleans is TRUE or FALSE, so none is out of range",
    ),
    _explained(
        _DOMAINS,
        "domain_of",
        "DAY_NANOSECONDS // _UNIT_NS",
        "DAY_NANOSECONDS / _UNIT_NS",
        why="86,400,000 as a float is exact",
    ),
    *(
        _explained(
            _DOMAINS,
            "constant",
            f"pa.scalar({value}, pa.bool_())",
            f"pa.scalar({value}, None)",
            f"pa.scalar({value}, )",
            why="pyarrow makes booleans of True and False, and a null scalar takes the type of the other one",
        )
        for value in ("value", "None")
    ),
    _explained(_DOMAINS, "constant", "scalar, null)", "scalar, None)", why="pyarrow makes a null scalar of None"),
    _explained(
        _DOMAINS,
        "_to_decimal",
        "unscaled < 0",
        "unscaled <= 0",
        "unscaled < 1",
        why="Arrow's decimals have one zero",
    ),
    _explained(
        _JUDGE,
        "PartitionEvidence.verdicts",
        '"UTC"',
        '"utc"',
        why="no timestamp is compared if the reader has no zone",
    ),
    _explained(
        _JUDGE,
        "PartitionEvidence.verdicts",
        "zone, case_sensitive=self._case_sensitive)",
        "zone, case_sensitive=None)",
        why="the partition column is found already, and a name in the same case is preferred",
    ),
    *(
        _explained(_JUDGE, "PartitionEvidence.verdicts", old, *new, why=_BOOLEANS)
        for old, new in (
            ("=False), np.bool_)", ("=False), None)", "=False), )")),
            ("copy_only=False", ("copy_only=None",)),
            ("(matching, False)", ("(matching, None)",)),
        )
    ),
    _explained(
        _JUDGE,
        "PartitionEvidence.can_compare",
        "case_sensitive=self._case_sensitive)",
        "case_sensitive=None)",
        why="the partition column is found already, and a name in the same case is preferred",
    ),
    _explained(
        _JUDGE,
        "Errors.add",
        "[error] = None",
        '[error] = ""',
        why="the dictionary is a set in order: its values are not used",
    ),
    _explained(
        _JUDGE,
        "Request.apart",
        '"keep"',
        "None",
        '"XXkeepXX"',
        '"KEEP"',
        why="errors are kept unless this is `fail`",
    ),
    *(
        _explained(
            _JUDGE, function, "table.rows > 0, np.bool_", "table.rows > 0, None", "table.rows > 0, ", why=_BOOLEANS
        )
        for function in ("_by_statistics", "decide")
    ),
    _explained(
        _JUDGE,
        "LeafVerdicts.judge_by_filters",
        "by_statistics(leaf, alive)",
        "by_statistics(leaf, None)",
        why="statistics are asked about all row groups at once",
    ),
    _explained(
        _JUDGE,
        "LeafVerdicts.judge_by_filters",
        "id(leaf), ())",
        "id(leaf), None)",
        "id(leaf), )",
        why="None counts as an empty list here",
    ),
    _explained(_JUDGE, "LeafVerdicts._judge_variant", "= False", "= None", why=_BOOLEANS),
    _explained(
        _JUDGE,
        "LeafVerdicts._judge_chunks",
        "(column, False)",
        "(column, None)",
        "(column, )",
        why="`or` passes on what is right of it",
    ),
    _explained(
        _LOOKUP,
        "find_index",
        "(None, 0.0)",
        "(None, 1.0)",
        why="the time of a look that was not made is not used",
    ),
    _explained(_LOOKUP, "find_index", "last=False", "last=None", why="None is taken for False"),
    _explained(
        _LOOKUP,
        "_look",
        "| None = None",
        '| None = ""',
        why="a damaged remote manifest has this version, and no manifest has it",
    ),
    _explained(
        _LOOKUP,
        "_look",
        "version is None else read",
        "(version is None) and False else read",
        why="a shortcut: `read_manifest` looks for the manifest too",
    ),
    _explained(
        _LOOKUP,
        "_segment_files",
        "FileInfo.of(path,",
        "FileInfo.of(None,",
        why="the files of one manifest are compared, in order",
    ),
    _explained(
        "parquet/bloom_filter/xxh64.py",
        "_xxh64_items",
        "reshape(-1)",
        "reshape(-2)",
        why=_ANY_NEGATIVE,
    ),
    _explained(
        _ENCODING,
        "bounds_of",
        "lows is None or highs is None",
        "lows is None and highs is None",
        why="both depend on the column alone",
    ),
    _explained(_ENCODING, "bounds_of", "<= highs[0], np.bool_)", "<= highs[0], None)", "<= highs[0], )", why=_BOOLS),
    _explained(
        _ENCODING,
        "_order_keys",
        'value is not None and ok else b""',
        'value is not None or ok else b""',
        'value is not None and ok else b"XXXX"',
        why="nobody looks at a bound that is not usable",
    ),
    _explained(_ENCODING, "_order_keys", "keys.astype(np.float64)", "keys.astype(None)", why=_FLOAT64),
    _explained(
        _ENCODING,
        "_hash",
        "stored.itemsize == 8",
        "stored.itemsize == 9",
        why="xxh64_bytes gives the same hashes of the same bytes, but is slower",
    ),
    _explained(
        _ENCODING,
        "_hash",
        'width, "big", signed=True',
        "width, signed=True",
        why="big-endian is Python's default, from 3.11 on",
    ),
    _explained(_ENCODING, "_physical_range", "return 0, 1", "return 0, 2", why="a boolean is 0 or 1"),
    *(
        _explained(_ENCODING, function, old, new, why="without a length, _is_ambiguous has ended the encoding")
        for function, old, new in (
            ("_hash", "type_length or 0", "type_length or 1"),
            ("_physical_range", "type_length or 1", "type_length or 2"),
        )
    ),
    _explained(
        _ENCODING,
        "_unexpected",
        'f"no encoding of {parquet_family(node)} values is known for {node.physical_type} column {node.name}"',
        "None",
        'f"no encoding of {parquet_family(None)} values is known for {node.physical_type} column {node.name}"',
        why="the text of an error",
    ),
    *(
        _explained(_SPLIT_BLOCK, f"SplitBlockBloomFilter.{function}", "reshape(-1", "reshape(-2", why=_ANY_NEGATIVE)
        for function in ("__init__", "from_bytes", "insert", "_insert_range", "check")
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.__init__",
        "reshape(-1)",
        "reshape(None)",
        why="every use takes single numbers of the array, or another view of it",
    ),
    _explained(_SPLIT_BLOCK, "SplitBlockBloomFilter.__init__", 'requirements="C"', 'requirements="c"', why=_UPPER_CASE),
    _explained(_SPLIT_BLOCK, "check_blocks", 'order="C"', 'order="c"', why=_UPPER_CASE),
    *(
        _explained(_SPLIT_BLOCK, "SplitBlockBloomFilter.insert", old, *new, why="another way to the same bits")
        for old, *new in (
            ("self.n_blocks > _INSERT_BLOCKS", "self.n_blocks >= _INSERT_BLOCKS"),
            ("4 * flat.size < self.n_blocks", "5 * flat.size < self.n_blocks", "4 * flat.size <= self.n_blocks"),
            ("start < stop", "start <= stop"),
        )
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "self.n_blocks & -self.n_blocks",
        "self.n_blocks | -self.n_blocks",
        why="n & -n is the lowest set bit of n, and n | -n is minus it",
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "if math.isinf(ndv) else",
        "if (math.isinf(ndv)) and False else",
        "if (math.isinf(ndv)) or True else",
        why=_FITTED,
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "// enough, 1).bit_length() - 1",
        "// enough, 1).bit_length() + 1",
        "// enough, 2).bit_length() - 1",
        why=_FITTED,
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.fitted",
        "folded.estimated_fpp > goal",
        "folded.estimated_fpp >= goal",
        why="a fold too few is made up for by the next loop",
    ),
    _explained(
        _SPLIT_BLOCK,
        "SplitBlockBloomFilter.merge",
        "if ratio > 1 else",
        "if (ratio > 1) or True else",
        "if ratio >= 1 else",
        why="no fold gives a copy",
    ),
    *(
        _explained(_ORC_ENCODING, "_value_order", old, *new, why=why)
        for old, *new, why in (
            ('"boolean"', '"XXbooleanXX"', '"BOOLEAN"', "a boolean is 0 or 1"),
            ("column, integers=(0, 1)", "column, ", "column, integers=(0, 2)", "a boolean is 0 or 1"),
            ('"date"', '"XXdateXX"', '"DATE"', "Python's dates are less than 2**31 days"),
            ("column, integers=INT32_RANGE", "column, ", "Python's dates are less than 2**31 days"),
        )
    ),
    _explained(
        _ORC_ENCODING,
        "_hash",
        "maximum_length or 0",
        "maximum_length or 1",
        why="a CHAR without a length has no order, and so no keys",
    ),
    _explained(
        _ORC_ENCODING,
        "_scaled",
        "unscaled < 0",
        "unscaled <= 0",
        "unscaled < 1",
        why="the hashed text of zero has no sign",
    ),
    _explained(
        _ORC_ENCODING,
        "_encode_timestamps",
        "_MICROSECOND - 1 if",
        "_MICROSECOND - 2 if",
        why="the last two nanoseconds of a microsecond are in the same millisecond",
    ),
    _explained(
        _ORC_ENCODING,
        "_encode_timestamps",
        "in ordered], np.int64)",
        "in ordered], None)",
        "in ordered], )",
        why=_INT64,
    ),
    _explained(
        _ORC_ENCODING,
        "_clock_readings",
        '"timestamp_ntz", column=column',
        '"timestamp_ntz", column=None',
        '"timestamp_ntz", ',
        why="the error is caught",
    ),
    _explained(
        _ORC_ENCODING, "_clock_readings", '"UTC"', '"XXUTCXX"', '"utc"', why="without a zone, the value has an offset"
    ),
    _explained(
        _ORC_ENCODING, "_shown_by_clocks", "reading + sign * step", "reading - sign * step", why="sign is 1 and -1"
    ),
    _explained(_ORC_BLOOM, "hash_doubles", "astype(np.float64)", "astype(None)", why=_FLOAT64),
    *(
        _explained(_ORC_BLOOM, "hash_bytes", old, new, why="the other way gives the same hashes")
        for old, new in (
            ("< _MIN_VECTORIZED", "<= _MIN_VECTORIZED"),
            (">= _MIN_VECTORIZED", "> _MIN_VECTORIZED"),
        )
    ),
    _explained(
        _ORC_BLOOM,
        "hash_bytes",
        "np.int64, len(values))",
        "np.int64, )",
        why="the number of values is only for speed",
    ),
    _explained(
        _ORC_BLOOM,
        "hash_bytes",
        ', kind="stable"',
        ", kind=None",
        ", ",
        ', kind="STABLE"',
        why="the order of strings of one length changes no hash",
    ),
    _explained(
        _ORC_BLOOM,
        "hash_bytes",
        "sizes % _BLOCK > 0",
        "None",
        "sizes / _BLOCK > 0",
        "sizes % _BLOCK >= 0",
        why="a string without a tail has zeros there, which change no hash",
    ),
    _explained(
        _ORC_BLOOM,
        "_murmur",
        "whole < len(value)",
        "whole <= len(value)",
        why="an empty tail is zero, which changes no hash",
    ),
    _explained(
        _ORC_BLOOM,
        "bit_positions",
        "np.int32(31)",
        "np.int32(32)",
        why="numpy shifts by all bits as by all but the sign",
    ),
    _explained(_ORC_BLOOM, "OrcBloomFilter.check", ".astype(np.bool_)", ".astype(None)", why="all() gives booleans"),
    _explained(
        _FOLDED,
        "FoldedFilters.none",
        "np.full(n, -1, np.int64)",
        "np.full(n, -1, None)",
        "np.full(n, -2, np.int64)",
        why="numpy makes int64 of it, and every negative number stands for no copy",
    ),
    _explained(_FOLDED, "FoldedFilters.add", ", -1, 4)", ", -2, 4)", why=_ANY_NEGATIVE),
    _explained(_FOLDED, "FoldedFilters.add", "reshape(-1", "reshape(-2", why=_ANY_NEGATIVE),
    _explained(
        _FOLDED,
        "FoldedFilters.concatenate",
        ", strict=True",
        ", ",
        ", strict=False",
        ", strict=None",
        why=_EQUAL_LENGTHS,
    ),
    _explained(
        _FOLDED,
        "FoldedFilters.concatenate",
        "FOLDED_BYTES // BYTES_PER_BLOCK",
        "FOLDED_BYTES / BYTES_PER_BLOCK",
        why="whole blocks fit in as much without the fraction",
    ),
    *(
        _explained(
            _FILTERS,
            f"ParquetFilters.{function}",
            ", strict=True",
            ", ",
            ", strict=False",
            ", strict=None",
            why=_EQUAL_LENGTHS,
        )
        for function in ("_with_bits", "_cache", "_bitsets")
    ),
    *(
        _explained(_FILTERS, f"ParquetFilters.{function}", "reshape(-1", "reshape(-2", why=_ANY_NEGATIVE)
        for function in ("read_all", "_cache", "_probe_whole", "_bitsets")
    ),
    *(
        _explained(_FILTERS, f"ParquetFilters.{function}", "// BYTES_PER_BLOCK", "/ BYTES_PER_BLOCK", why=_WHOLE)
        for function in ("_cache", "_probe_whole", "_probe_blocks")
    ),
    _explained(
        _FILTERS,
        "ParquetFilters.__init__",
        "len(arrays.offset), np.int64)",
        "len(arrays.offset), None)",
        "len(arrays.offset), )",
        why="a float64 counts bytes exactly up to 2**53",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters.__init__",
        "np.zeros(len(arrays.offset), np.bool_)",
        "None",
        "np.zeros(len(arrays.offset), None)",
        "np.zeros(len(arrays.offset), )",
        why="each question chooses anew before it looks",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._read_headers",
        "room > BYTES_PER_BLOCK",
        "room >= BYTES_PER_BLOCK",
        why="where only a block fits, a header and a block do not: another error says so",
    ),
    *(
        _explained(_FILTERS, "ParquetFilters._read_headers", old, *new, why="only how much is read at once")
        for old, *new in (
            ("(length > 0) &", "(length >= 0) &", "(length > 1) &"),
            ("length <= _SMALL_BYTES", "length < _SMALL_BYTES"),
        )
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._read_header_batch",
        "header_bytes > 0",
        "header_bytes > 1",
        why="a header has more than one byte",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._cache",
        "list(bitsets), np.int64",
        "list(bitsets), None",
        "list(bitsets), ",
        why=_INT64,
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._load",
        "if len(ready) else",
        "if (len(ready)) or True else",
        why="an empty batch is answered by nothing",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._probe",
        "question.chunks), np.bool_)",
        "question.chunks), None)",
        "question.chunks), )",
        why="the answers are put into an array of booleans",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._probe_whole",
        "|= any_set",
        "= any_set",
        why="a bit that was seen before is in the whole bitset too",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._look_for_bits",
        "* size // storage",
        "* size / storage",
        why="array_split cuts off the fraction",
    ),
    _explained(
        _FILTERS,
        "ParquetFilters._bitsets",
        "np.zeros(1, np.int64)",
        "np.zeros(2, np.int64)",
        why="there is one chunk, so nobody takes the second",
    ),
)

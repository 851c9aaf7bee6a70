"""Surviving mutants of statistics, verdicts, probing of filters, and indexes."""

from __future__ import annotations

from tests.mutants.survivors.explanation import ANY_NEGATIVE, EQUAL_LENGTHS, INT64, explained

_STATISTICS = "planning/evidence/statistics.py"
_TILES = "planning/evidence/tiles.py"
_SLICES = "planning/evidence/bit_slices.py"
_ONE_INDEX = "the tiles of an index lie in one place, so they all have the same number of threads"
_JUDGE = "planning/judge.py"
_PARTITIONS = "planning/partition_evidence.py"
_LOOKUP = "planning/index/lookup.py"
_BOOLEANS = "comparisons give booleans, and numpy and Arrow take None for False"
_FILTERS = "planning/parquet/filters.py"
_FOLDED = "planning/parquet/folded_filters.py"
_WHOLE = "sizes are whole blocks, and the result becomes an integer again"

EXPLAINED = (
    explained(
        _STATISTICS,
        "_case_candidates",
        "len(encoded.hashes), np.int64",
        "len(encoded.hashes), None",
        "len(encoded.hashes), ",
        why=INT64,
    ),
    explained(
        _TILES,
        "TiledFilters.replaced",
        ", -1], np.int32)",
        ", -1], None)",
        ", -1], )",
        why="the numbers are put into an array of int32",
    ),
    explained(_TILES, "TiledFilters.ask", "self.tiles[:1]", "self.tiles[:2]", why=_ONE_INDEX),
    explained(_TILES, "TiledFilters._fetch", "self.tiles[0].slices", "self.tiles[1].slices", why=_ONE_INDEX),
    explained(
        _TILES,
        "TiledFilters._ask_tile",
        "(first == low).all() and (last == high).all()",
        "None",
        "(first != low).all() and (last == high).all()",
        "(first == low).all() and (last != high).all()",
        why="a shortcut, which is then never taken: the loop below gives the same answers",
    ),
    explained(
        _TILES, "TiledFilters._ask_tile", ", axis=0)", ", )", why="numpy reduces along the first axis by default"
    ),
    explained(
        _TILES,
        "_by_tile",
        "bool((tile[1:] >= tile[:-1]).all())",
        "(bool((tile[1:] >= tile[:-1]).all())) and False",
        "bool(None)",
        "bool((tile[1:] > tile[:-1]).all())",
        why="a shortcut: sorting what is sorted changes nothing",
    ),
    explained(
        _TILES,
        "_by_tile",
        ', kind="stable"',
        ", kind=None",
        ", ",
        ', kind="STABLE"',
        why="the order within a tile changes no answer",
    ),
    explained(_TILES, "_by_tile", ", strict=True", ", ", ", strict=False", ", strict=None", why=EQUAL_LENGTHS),
    *(
        explained(_SLICES, function, old, new, why=ANY_NEGATIVE)
        for function, old, new in (
            ("BitSlices._slices", "row.reshape(-1)", "row.reshape(-2)"),
            ("BitSlices._slices", "-1, per_unit", "-2, per_unit"),
            ("BitSlices._slices", "-1, _CHECKSUM_BYTES", "-2, _CHECKSUM_BYTES"),
            ("transpose", "last - first, -1)", "last - first, -2)"),
            ("_checksums", "words.reshape(-1", "words.reshape(-2"),
            ("_checksums", ".reshape(-1)", ".reshape(-2)"),
        )
    ),
    explained(
        _SLICES,
        "BitSlices._slices",
        "SLICES_PER_ROW // per_unit",
        "SLICES_PER_ROW / per_unit",
        why="both are powers of two, and the number becomes an integer again",
    ),
    explained(
        _SLICES,
        "BitSlices._slices",
        "axis=-2",
        "axis=+2",
        why="`ask` gives positions of two axes, so both name the same axis",
    ),
    *(
        explained(_SLICES, "transpose", old, new, why="only how many rows are made at once")
        for old, new in (
            ("max(1, _BATCH", "max(2, _BATCH"),
            ("(16 * row_bytes", "(17 * row_bytes"),
            ("slice_bytes, 1)", "slice_bytes, 2)"),
        )
    ),
    explained(_SLICES, "transpose", "part.shape[1] < width", "part.shape[1] <= width", why="it pads by nothing"),
    explained(
        _SLICES,
        "transpose",
        "reshape(units.shape[:2])",
        "reshape(None)",
        why="the numbers are taken in their order, whatever their shape",
    ),
    explained(
        _PARTITIONS,
        "PartitionEvidence.verdicts",
        '"UTC"',
        '"utc"',
        why="no timestamp is compared if the reader has no zone",
    ),
    explained(
        _PARTITIONS,
        "PartitionEvidence.verdicts",
        "zone, case_sensitive=self._case_sensitive)",
        "zone, case_sensitive=None)",
        why="the partition column is found already, and a name in the same case is preferred",
    ),
    explained(
        _PARTITIONS,
        "PartitionEvidence.can_compare",
        "case_sensitive=self._case_sensitive)",
        "case_sensitive=None)",
        why="the partition column is found already, and a name in the same case is preferred",
    ),
    explained(
        _JUDGE,
        "Errors.add",
        "[error] = None",
        '[error] = ""',
        why="the dictionary is a set in order: its values are not used",
    ),
    explained(
        _JUDGE,
        "Request.uncounted_copy",
        '"keep"',
        "None",
        '"XXkeepXX"',
        '"KEEP"',
        why="errors are kept unless this is `fail`",
    ),
    *(
        explained(
            _JUDGE, function, "table.rows > 0, np.bool_", "table.rows > 0, None", "table.rows > 0, ", why=_BOOLEANS
        )
        for function in ("_by_statistics", "decide")
    ),
    explained(
        _JUDGE,
        "LeafVerdicts.judge_by_filters",
        "by_statistics(leaf, alive)",
        "by_statistics(leaf, None)",
        why="statistics are asked about all row groups at once",
    ),
    explained(
        _JUDGE,
        "LeafVerdicts.judge_by_filters",
        "id(leaf), ())",
        "id(leaf), None)",
        "id(leaf), )",
        why="None counts as an empty list here",
    ),
    explained(_JUDGE, "LeafVerdicts._judge_variant", "= False", "= None", why=_BOOLEANS),
    explained(
        _LOOKUP,
        "find_index",
        "(None, 0.0)",
        "(None, 1.0)",
        why="the time of a look that was not made is not used",
    ),
    explained(
        _LOOKUP,
        "_look",
        "| None = None",
        '| None = ""',
        why="a damaged remote manifest has this version, and no manifest has it",
    ),
    explained(
        _LOOKUP,
        "_look",
        "version is None else read",
        "(version is None) and False else read",
        why="a shortcut: `read_manifest` looks for the manifest too",
    ),
    explained(
        _LOOKUP,
        "_segment_files",
        "FileInfo.of(path,",
        "FileInfo.of(None,",
        why="the files of one manifest are compared, in order",
    ),
    explained(
        _FOLDED,
        "FoldedFilters.none",
        "np.full(n, -1, np.int64)",
        "np.full(n, -1, None)",
        "np.full(n, -2, np.int64)",
        why="numpy makes int64 of it, and every negative number stands for no copy",
    ),
    explained(_FOLDED, "FoldedFilters.added", ", -1, 4)", ", -2, 4)", why=ANY_NEGATIVE),
    explained(_FOLDED, "FoldedFilters.added", "reshape(-1", "reshape(-2", why=ANY_NEGATIVE),
    explained(
        _FOLDED,
        "FoldedFilters.concatenate",
        ", strict=True",
        ", ",
        ", strict=False",
        ", strict=None",
        why=EQUAL_LENGTHS,
    ),
    explained(
        _FOLDED,
        "FoldedFilters.concatenate",
        "FOLDED_BYTES // BYTES_PER_BLOCK",
        "FOLDED_BYTES / BYTES_PER_BLOCK",
        why="whole blocks fit in as much without the fraction",
    ),
    *(
        explained(
            _FILTERS,
            f"ParquetFilters.{function}",
            ", strict=True",
            ", ",
            ", strict=False",
            ", strict=None",
            why=EQUAL_LENGTHS,
        )
        for function in ("_with_bits",)
    ),
    *(
        explained(_FILTERS, f"ParquetFilters.{function}", "reshape(-1", "reshape(-2", why=ANY_NEGATIVE)
        for function in ("read_all", "_cache", "_probe_whole", "_bitsets")
    ),
    *(
        explained(_FILTERS, f"ParquetFilters.{function}", "// BYTES_PER_BLOCK", "/ BYTES_PER_BLOCK", why=_WHOLE)
        for function in ("_cache", "_probe_whole", "_probe_blocks")
    ),
    explained(
        _FILTERS,
        "ParquetFilters.__init__",
        "len(arrays.offset), np.int64)",
        "len(arrays.offset), None)",
        "len(arrays.offset), )",
        why="a float64 counts bytes exactly up to 2**53",
    ),
    explained(
        _FILTERS,
        "ParquetFilters.__init__",
        "np.zeros(len(arrays.offset), np.bool_)",
        "None",
        "np.zeros(len(arrays.offset), None)",
        "np.zeros(len(arrays.offset), )",
        why="each question chooses anew before it looks",
    ),
    explained(
        _FILTERS,
        "ParquetFilters._read_headers",
        "room > BYTES_PER_BLOCK",
        "room >= BYTES_PER_BLOCK",
        why="where only a block fits, a header and a block do not: another error says so",
    ),
    *(
        explained(_FILTERS, "ParquetFilters._read_headers", old, *new, why="only how much is read at once")
        for old, *new in (
            ("(length > 0) &", "(length >= 0) &", "(length > 1) &"),
            ("length <= max(", "length < max("),
        )
    ),
    explained(
        _FILTERS,
        "ParquetFilters._read_header_batch",
        "header_bytes > 0",
        "header_bytes > 1",
        why="a header has more than one byte",
    ),
    explained(
        _FILTERS,
        "ParquetFilters._cache",
        "list(bitsets), np.int64",
        "list(bitsets), None",
        "list(bitsets), ",
        why=INT64,
    ),
    explained(
        _FILTERS,
        "ParquetFilters._load",
        "if len(ready) else",
        "if (len(ready)) or True else",
        why="an empty batch is answered by nothing",
    ),
    explained(
        _FILTERS,
        "ParquetFilters._probe",
        "question.chunks), np.bool_)",
        "question.chunks), None)",
        "question.chunks), )",
        why="the answers are put into an array of booleans",
    ),
    explained(
        _FILTERS,
        "ParquetFilters._look_for_bits",
        "* size // storage",
        "* size / storage",
        why="array_split cuts off the fraction",
    ),
    explained(
        _FILTERS,
        "ParquetFilters._bitsets",
        "np.zeros(1, np.int64)",
        "np.zeros(2, np.int64)",
        why="there is one chunk, so nobody takes the second",
    ),
)

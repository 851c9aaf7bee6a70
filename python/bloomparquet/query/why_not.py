"""Why a predicate skipped no more than it did: the closed set of reasons, each with its sentence and its remedy.

Sentences and remedies have these fields:

* `column`; `count` of `total` `unit`;
* `detail`: a type, the message of an error, or another part of the predicate;
* `add`, `replace`, `improve`, `add_case`: how to add filters of the column to files of this format, replace them, make
  them more exact, or add filters of lower(column).
"""

from __future__ import annotations

from enum import Enum

SATURATED_FPP = 0.2
"""Filters with at least this false positive probability are called too full: a lookup reads a fifth of all row groups
for nothing. By default, filters are written with 0.01."""


class WhyNot(Enum):
    """A reason why evidence was not used or skipped nothing. The value is the sentence and the remedy."""

    # The predicate
    NO_PREDICATE = (
        "there is no predicate",
        "give one: where=… in Python, --where on the command line, WHERE in a query",
    )
    ALWAYS_TRUE = ("the predicate is TRUE for every row", "add a condition on a column")
    FUNCTION = (
        "a function or an operator changes the column first, and min/max and filters are about the stored values",
        "compare the column itself, or store the result as a column of its own and add a filter to it",
    )
    LEADING_WILDCARD = (
        "the pattern begins with a wildcard, so that any value might match",
        "begin the pattern with text, or add a condition on another column",
    )
    TWO_COLUMNS = (
        "two columns are compared, and min/max and filters are only compared with literals",
        "add a condition that compares one of the columns with a literal; text is in quotes",
    )
    NOT_A_COMPARISON = (
        "this is not understood as a comparison of a column with literals",
        "add a condition such as column = value, IN (…), < or LIKE 'prefix%'",
    )
    DOUBLE_QUOTES = (
        "double quotes make text in Spark's SQL",
        "write the column without quotes, or in backticks",
    )
    OR_HALF = (
        "this part of the OR keeps {count} of {total} {unit} that the rest of it would skip: {detail}",
        "do what the reasons of this part say, or run it as a query of its own",
    )
    OR_HALVES = (
        "these parts of the OR keep {count} of {total} {unit} that the rest of it would skip: {detail}",
        "do what the reasons of each of these parts say, or run each as a query of its own",
    )
    NEGATION = (
        "<>, NOT IN and NOT skip only {unit} whose values are all ruled out; no filter proves that a value is there",
        "ask for the values that are wanted, with = or IN",
    )
    NOT_NULL = (
        "IS NOT NULL skips only {unit} in which every value of {column} is NULL",
        "compare {column} with a value",
    )
    NULLS_EVERYWHERE = (
        "{count} of {total} {unit} hold rows in which {column} is NULL",
        "add a condition on another column, or sort the rows by {column} when writing, so that nulls are together",
    )
    # The literal
    LITERAL = (
        "it is not certain which stored value the literal equals in {count} of {total} {unit}",
        "write it in the column's type, timestamps with a zone; filters prove nothing about NaN and times before 1900",
    )
    LITERAL_TYPE = ("the literal does not fit the column: {detail}", "write the literal in the column's type")
    NON_ASCII = (
        "filters of {detail} prove nothing for values outside ASCII",
        "compare the column itself with the spellings that occur",
    )
    MANY_VALUES = (
        "{detail} values are looked up at once, and one false maybe keeps each of {count} of {total} {unit}",
        "ask for fewer values, or lower the false positive probability of the filters: {improve}",
    )
    SAMPLE_SAYS_MAYBE = (
        "the filters of {count} of {total} {unit} were not asked for so many values: those of a sample all said maybe",
        "ask for fewer values, or sort the rows by {column} when writing",
    )
    # The column
    UNKNOWN_COLUMN = ("no file has the column {column}", "correct the name, or add the column to the files")
    AMBIGUOUS_COLUMN = (
        "in {count} of {total} {unit} the name {column} means a struct, a list or a map, or several columns",
        "compare a field of the struct, use array_contains for a list, and spell the name as the files do",
    )
    TYPE = (
        "min/max and filters of {column} prove nothing, because of its type: {detail}",
        "store the column as integers, text, dates, or decimals of up to 18 digits",
    )
    BOOLEAN = (
        "{column} is BOOLEAN: it has no Bloom filters, and min/max skips only {unit} in which all values are equal",
        "add a condition on another column, or sort the rows by {column} when writing",
    )
    READER_TYPE = (
        "the reader converts {column} to {detail}, so that its values may differ from those stored",
        "read the column in the type that the files have",
    )
    NARROW_TYPE = (
        "in {count} of {total} {unit}, numbers may lie beyond the type of {column} ({detail}): readers show others",
        "write the files again with {column} in a type that holds all its numbers, and with statistics",
    )
    FLOAT_BOUNDS = (
        "the max leaves out NaN, which is greater than every number, and there may be some",
        "use <, <= or =, or store the column as decimals",
    )
    BOUNDS_TYPE = (
        "min/max of {column} prove nothing, because of its type: {detail}",
        "ask for a value with =, which a filter helps, or store the column in another type",
    )
    LIST_IN_ORC = (
        "evidence about elements of lists and maps is not used in ORC files",
        "store the data as Parquet, or add a condition on another column",
    )
    NOT_SHREDDED = (
        "{count} of {total} {unit} may hold {detail} of {column} outside a typed column of its own",
        "write the files with the field shredded, in one type for all rows; Spark 4.1 and later shred",
    )
    # The files
    NO_FILTER = (
        "{count} of {total} {unit} have no Bloom filter on {column}",
        "{add}",
    )
    DISTRUSTED_FILTER = (
        "{count} of {total} {unit} have no Bloom filter on {column} that proves anything: {detail}",
        "{add}",
    )
    NO_CASE_FILTER = (
        "{count} of {total} {unit} have no Bloom filter on {detail}",
        "{add_case}",
    )
    SATURATED = (
        "the filters of {column} are too full: they say maybe for {detail} of the values that they do not hold",
        "{replace}",
    )
    UNUSABLE_FILTER = (
        "{count} of {total} {unit} have a Bloom filter that cannot be used: {detail}",
        "{replace}",
    )
    NO_BOUNDS = (
        "{count} of {total} {unit} have no usable min/max of {column}",
        "write the files with statistics, as pyarrow and Spark do; of ORC files, no other writer's are used",
    )
    NO_NULL_COUNT = (
        "{count} of {total} {unit} have no null count of {column}",
        "write the files with statistics, which pyarrow and Spark do unless told otherwise",
    )
    RANGE_OVERLAPS = (
        "the min/max of {count} of {total} {unit} overlap the range: these may hold matching rows",
        "narrow the range, or sort the rows by {column} when writing if they are not",
    )
    VALUE_EVERYWHERE = (
        "min/max and filter both say maybe in {count} of {total} {unit}: the value is probably there, and is read",
        "nothing, if few are left; if many, add another condition, or sort the rows by {column} when writing",
    )
    PARTITIONS = (
        "the partition values of {count} of {total} {unit} match",
        "name fewer partitions, or add a condition on another column",
    )
    PARTITION_TYPE = (
        "the values of the partition column {column} cannot be compared here",
        "compare the partition column with =, IN or < and a literal of its type; timestamps with a time zone",
    )
    FILE_CHANGED = (
        "the evidence about {count} of {total} {unit} cannot be read: {detail}",
        "list the files and plan again; in Spark, REFRESH TABLE or a new DataFrame",
    )
    KEY_MISSING = (
        "{count} of {total} {unit} are encrypted, and their key was not given: {detail}",
        "give the keys: keys= in Python, --key-provider on the command line, keyProvider in Spark",
    )
    UNREADABLE_FOOTER = (
        "{count} files have a footer that cannot be read: {detail}",
        "write these files again, with fewer columns or smaller statistics",
    )
    # Joins, in Spark
    JOIN_NOT_BROADCAST = (
        "Spark has no broadcast of the other side of the join that the keys could come from",
        "wrap it in broadcast(…), raise spark.sql.autoBroadcastJoinThreshold, or store the rows of a LIMIT first",
    )
    JOIN_BROADCASTS_THIS = (
        "the join broadcasts this side, so its keys skip {unit} of the other side, and not the reverse",
        "nothing, if this side is the smaller one; otherwise wrap the other side in broadcast(…)",
    )
    JOIN_KEEPS_ROWS = (
        "the join keeps rows of this side that match nothing on the other side",
        "use an inner join or LEFT SEMI JOIN, or add a condition on this side",
    )
    JOIN_KEY = (
        "the key of the join is an expression around the column, or of a type that no evidence is about",
        "join on the column itself, with a key of its type on the other side",
    )
    JOIN_MANY_KEYS = (
        "the other side of the join has more than 10,000 keys, which are not looked up",
        "add a condition on the other side, or on this one",
    )
    JOIN_NOT_PUSHED = (
        "the keys of the join do not reach the scan: they pass no stream, LIMIT or window and no side with random rows",
        "set spark.sql.optimizer.dynamicPartitionPruning.enabled and spark.sql.exchange.reuse to true, if they are not",
    )
    # The scan, in Spark
    PLANNER_FAILED = (
        "the planner failed: {detail}",
        "repair what the message names; after a timeout, raise planningTimeout, or run bloomparquet index build PATH",
    )
    NOT_PLANNED = (
        "the planner was not asked: {detail}",
        "change the setting or the option that it names; if it names none, see the page In Spark of the documentation",
    )

    @property
    def sentence(self) -> str:
        return self.value[0]

    @property
    def remedy(self) -> str:
        return self.value[1]


def share_of_absent(fpp: float) -> str:
    """The detail of :attr:`WhyNot.SATURATED`: the share of absent values for which filters say maybe."""
    return f"{100 * fpp:.0f} %"

"""Surviving mutants of predicates, SQL and the order of literals."""

from __future__ import annotations

from tests.mutants.survivors.explanation import explained

_ORDERING = "query/ordering.py"
_NORMAL_FORM = "query/normal_form.py"
_CLOCK_CHANGES = "query/clock_changes.py"
_DOMAINS = "query/domains.py"
_CASTS = "query/casts.py"
_ROUNDING = "query/rounding.py"

EXPLAINED = (
    explained(
        _NORMAL_FORM,
        "weaken",
        ", strict=True",
        ", ",
        ", strict=False",
        ", strict=None",
        why="one child is made of each child",
    ),
    explained(
        _NORMAL_FORM,
        "_normalize_leaf",
        "None not in leaf.values",
        "(None not in leaf.values) and False",
        why="a shortcut: without None, the other branch copies the values",
    ),
    explained(
        _ORDERING,
        "ValueOrder.point",
        "number == -math.inf",
        "number == +math.inf",
        why="infinity has returned, and minus infinity is less than `low`",
    ),
    explained(
        _ORDERING,
        "ValueOrder._stored",
        '"boolean"',
        '"XXbooleanXX"',
        '"BOOLEAN"',
        why="booleans are neither NaN nor fractions, so they are returned as they are at the end too",
    ),
    explained(
        _ORDERING,
        "ValueOrder._stored",
        'family != "time"',
        'family != "XXtimeXX"',
        'family != "TIME"',
        why="times of day are not negative, so all are greater than the oldest timestamp",
    ),
    explained(
        _ORDERING,
        "ValueOrder._integer_keys",
        "np.array(stored, dtype) if set(map(type, stored)) == {int} else None",
        "None",
        "np.array(stored, dtype) if (set(map(type, stored)) == {int}) and False else None",
        why="a shortcut: the loop below gives the same keys",
    ),
    *(
        explained(_ORDERING, "ValueOrder._integer_keys", old, new, why="the shortcut is not taken: the same keys")
        for old, new in (
            ("high > 2**64", "high > 2 * 64"),
            ("keys < low", "keys <= low"),
            ("keys > high", "keys >= high"),
        )
    ),
    *(
        explained(
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
    explained(
        _ORDERING,
        "ValueOrder._float_keys",
        "(ordered, np.float64)",
        "(ordered, None)",
        "(ordered, )",
        why="numpy makes float64 of Python's floats, and of an empty list",
    ),
    explained(
        _ORDERING,
        "exact_values",
        '"UTC"',
        '"XXUTCXX"',
        '"utc"',
        why="without a zone, no value is left that needs one",
    ),
    explained(
        _ORDERING,
        "_float_point",
        "value > 0",
        "value >= 0",
        "value > 1",
        why="only numbers beyond 1e308 overflow",
    ),
    explained(
        _ORDERING,
        "_integral",
        "value.denominator == 1",
        "(value.denominator == 1) and False",
        why="a whole Fraction is compared and floored as its integer is",
    ),
    explained(_ORDERING, "_rounds_to_whole", "< 2**1000", "<= 2**1000", why="a Fraction here is never whole"),
    explained(
        _CASTS,
        "cast_literal",
        "Fraction(1, 3)",
        "Fraction(2, 3)",
        why="no power of ten makes a whole number of two thirds either, so no type holds it",
    ),
    explained(
        _CASTS,
        "cast_literal",
        "< _MAX_DIGITS",
        "<= _MAX_DIGITS",
        why="no type holds a number of so many digits, before or after the point",
    ),
    *(
        explained(_ROUNDING, "_digits", old, *new, why="more than 38 digits are no DECIMAL, however many they are")
        for old, *new in (
            (
                "abs(value) < 10**_DECIMAL_DIGITS",
                "abs(value) <= 10**_DECIMAL_DIGITS",
                "abs(value) < 11**_DECIMAL_DIGITS",
            ),
            ("_DECIMAL_DIGITS + 1", "_DECIMAL_DIGITS + 2"),
        )
    ),
    explained(
        _CLOCK_CHANGES,
        "_is_moved",
        "hours=25",
        "hours=26",
        why="no zone has another clock change in the hour between",
    ),
    explained(
        _DOMAINS,
        "_Discrete.at_most",
        "stored < self.high",
        "stored <= self.high",
        why="all values are at most `high`, which Arrow compares then",
    ),
    *(
        explained(
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
        explained(_DOMAINS, "_Discrete.floor", old, new, why="a shortcut: Fractions give the same integers")
        for old, new in (("type(literal) is int", "type(None) is int"), ("self.factor == 1", "self.factor == 2"))
    ),
    explained(
        _DOMAINS,
        "_Floats.at_most",
        "literal > 0",
        "literal >= 0",
        "literal > 1",
        why="only integers beyond 1e308 come here",
    ),
    explained(
        _DOMAINS,
        "_Floats.contains",
        ", FALSE))",
        ", None))",
        why="the caller makes NULL of the answers for NULL",
    ),
    explained(
        _DOMAINS,
        "domain_of",
        "plain, 0, 1,",
        "plain, 0, 2,",
        why="a literal for booleans is TRUE or FALSE, so none is out of range",
    ),
    explained(
        _DOMAINS,
        "domain_of",
        "DAY_NANOSECONDS // _UNIT_NS",
        "DAY_NANOSECONDS / _UNIT_NS",
        why="86,400,000 as a float is exact",
    ),
    explained(_DOMAINS, "constant", "scalar, NULL)", "scalar, None)", why="pyarrow makes a null scalar of None"),
)

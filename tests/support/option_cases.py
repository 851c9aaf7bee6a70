"""Values that options do not take, and what is expected instead. Python and the jar must say the same of them."""

from __future__ import annotations

# option, text, what is expected; only options that both read
WRONG_VALUES = (
    ("planning", "of", "auto or off"),
    ("pushFilters", "onn", "auto, on or off"),
    ("onFilterError", "kep", "keep or fail"),
    ("cache", "perhaps", "true or false"),
    ("tableLog", "ingore", "error or ignore"),
)

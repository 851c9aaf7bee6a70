"""Owns the truth of a predicate for Arrow rows, as Spark evaluates it. :func:`mask.bind_mask` is the way in."""

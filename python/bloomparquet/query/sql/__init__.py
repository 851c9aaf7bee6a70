"""Owns SQL text: what users write in Spark's dialect becomes predicates. :func:`parse.parse_where` is the way in."""

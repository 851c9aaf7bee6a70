"""Owns adding and shrinking Bloom filters in a whole table, on Spark's executors."""

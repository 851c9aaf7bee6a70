"""Owns building the index of a data set on Spark's executors."""

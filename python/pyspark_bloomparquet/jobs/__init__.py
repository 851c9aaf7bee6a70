"""Owns running functions of this package on Spark's executors."""

"""Owns Parquet bytes as typed records, and typed records as Parquet bytes.

Must not know any plan: no predicate, no verdict, no data set.
"""

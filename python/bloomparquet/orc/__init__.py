"""Owns ORC bytes as typed records: tail, stripes, indexes, Bloom filters, and the quirks of each writer.

Must not know any plan, nor Parquet.
"""

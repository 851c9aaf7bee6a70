"""Parquet files with Bloom filters of the right size: written, added to files, made smaller."""

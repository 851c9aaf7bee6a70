"""Owns the Thrift compact protocol (one reader, one writer) and the definitions of ``parquet.thrift``."""

"""Owns the Thrift compact protocol: one reader, one writer, no Parquet field."""

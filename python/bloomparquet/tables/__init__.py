"""Owns the public data set, and the tables whose log names their files: Delta Lake and Iceberg.

Must not plan or read rows itself: it describes live files, columns and deleted rows for planning and reading.
"""

"""Owns data sets as users see them, and tables whose log names their files: Delta Lake and Iceberg.

Must not plan or read rows itself: it describes live files, columns and deleted rows, which planning and reading use.
"""

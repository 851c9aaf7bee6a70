"""Owns Spark's view of tables whose log names their files: a data source over any :class:`bloomparquet.Dataset`."""

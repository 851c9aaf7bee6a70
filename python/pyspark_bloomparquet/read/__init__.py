"""Owns the Python data source's reading: listing, schema, tasks, Arrow batches."""

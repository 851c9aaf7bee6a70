"""Owns what plans have read, for later plans: parts in memory, and segments in a directory, which an index has too."""

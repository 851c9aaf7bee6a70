"""Owns what a plan asks of any file format, and what bounds and counts prove."""

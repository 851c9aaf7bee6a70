"""Owns what a plan asks of any file format, what bounds and counts prove, and the files in which evidence is stored."""

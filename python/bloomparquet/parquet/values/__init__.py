"""Owns how a file's column stores, hashes and orders a value. A mistake here loses rows."""

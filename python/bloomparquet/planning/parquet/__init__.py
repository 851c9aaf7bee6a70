"""Owns a data set's row groups as arrays, their Bloom filters, and the cache of both."""

"""Owns page headers, and decrypting and encrypting pages."""

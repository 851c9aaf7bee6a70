"""Owns every option of the data sources: name, default, check and line of documentation; and the key provider.

It knows neither reading nor the jar.
"""

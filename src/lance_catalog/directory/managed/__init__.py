"""Managed table versions: the catalog decides which manifest is the next version of a table.

``target`` what an operation works on · ``commit`` new versions, one or many at once · ``reading``
list and describe · ``deletion`` · ``rows`` what drop, rename and undrop do with version rows ·
``switch`` turning it on and off.
"""

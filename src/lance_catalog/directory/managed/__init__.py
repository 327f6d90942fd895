"""Managed table versions: the catalog decides which manifest is the next version of a table.

``target`` what an operation works on · ``commit`` new versions, one or many at once · ``voiding``
taking them back when their name was taken · ``batch`` versions with other changes · ``adoption``
what others committed without the catalog · ``reading`` list and describe · ``deletion`` and
``cleanup``, under a ``lineage`` · ``rows`` what drop, rename and undrop do with version rows ·
``switch`` turning it on and off · ``api`` what the namespace offers.
"""

"""Ours beside native, in one run, as ratios."""

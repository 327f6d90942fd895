"""One-line breaks of the code that the tests must catch: ``make mutants``."""

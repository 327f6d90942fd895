"""What becomes of a table after it leaves the catalog: trash rows, markers, purge."""

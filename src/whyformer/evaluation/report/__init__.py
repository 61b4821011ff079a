"""What a run found: figures with intervals and tests, tables, plots and a page."""

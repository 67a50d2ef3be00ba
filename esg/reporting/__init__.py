"""Reports as HTML pages: plots, tables, shares as text."""

"""The `esg` command: `main` has the table of its sub-commands; each has a file of its own."""

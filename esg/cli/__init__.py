"""The command line. `main` wires it; each sub-command has a file of its own.

Parsing the arguments must not wait for numpy or for the drawing of tables, so that `esg --help` and
a misspelt option answer at once: these imports stand in the functions that need them, and types
that serve annotations alone are imported for the type checker only.
"""

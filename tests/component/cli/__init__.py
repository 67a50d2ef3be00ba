"""The command line, as its users meet it: output, errors and exit codes."""

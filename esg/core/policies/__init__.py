"""Who decides: ESG, its rivals and `apex`. `table` has them by name."""

"""Policies, which decide about configs and nodes: ESG, its rivals and `apex`. `table` has them by
name."""

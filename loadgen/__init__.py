"""Open-loop load: when which request comes."""

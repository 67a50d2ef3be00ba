"""Open-loop load: when which request comes, how it is sent, and what comes of it."""

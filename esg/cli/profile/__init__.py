"""`esg profile`: measure functions, and look at profiles."""

"""`esg demo`: a whole mesh at work, for a minute."""

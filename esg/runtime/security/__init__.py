"""TLS, tokens, and whose a request is."""

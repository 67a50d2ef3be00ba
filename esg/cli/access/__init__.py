"""Tokens, certificates and secrets from the command line."""

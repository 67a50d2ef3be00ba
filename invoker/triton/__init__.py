"""Triton servers that a node starts itself."""

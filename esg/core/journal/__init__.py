"""The journal's format, and its strict replay."""

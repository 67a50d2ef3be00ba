"""The journal, a write-ahead log of events: its format, and its strict replay."""

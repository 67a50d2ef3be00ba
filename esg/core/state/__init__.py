"""State: all that a scheduler remembers, as plain records."""

"""All that a scheduler remembers, as plain records."""

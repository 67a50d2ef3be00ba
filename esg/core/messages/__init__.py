"""Messages: events and commands of both state machines, and how they are written down."""

"""What a call may cost, and what it may say, before anything is done for it."""

"""The scheduler: one deterministic state machine behind `handle(now_us, event)`."""

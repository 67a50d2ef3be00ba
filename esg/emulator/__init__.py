"""Virtual time around the same brains that run live: only durations and arrivals are invented."""

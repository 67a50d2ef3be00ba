"""What loadgen shows: progress, summary, page."""

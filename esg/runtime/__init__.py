"""What the programs around the brains share."""

"""One hostile client and one polite client of the same mesh."""

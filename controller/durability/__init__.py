"""The write-ahead log of a controller: written, read again after a crash, salvaged if damaged."""

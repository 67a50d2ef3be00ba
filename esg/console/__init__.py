"""What the commands `esg` and `loadgen` share: options, tables, formats, how they end."""

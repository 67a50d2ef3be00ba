"""The pages of `esg emulate`, `esg capacity` and `esg compare` (see `esg.reporting.page`)."""

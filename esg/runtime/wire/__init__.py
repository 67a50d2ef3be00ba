"""The wire between controller and invokers: both ends' conversions, and their checks."""

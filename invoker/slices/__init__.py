"""The slices of a node: finding, starting, calling and watching them."""

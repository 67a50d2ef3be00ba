"""Measuring what functions take, on the slices that are here: what `esg profile` does.

grid      which configs are measured, in which order
bench     a real node without its mesh: one task at a time
door      where the node's controller would otherwise be
samples   what functions are given to work on
measure   function by function, config by config
record    all that was measured so far, as a file: whoever stops goes on from there
machine   what it was measured on
tables    the profile files and the catalog, made from the record
compare   where two catalogs differ
"""

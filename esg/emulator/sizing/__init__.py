"""How large must a cluster be? From bounds by linear programming to clusters that were emulated.

`mig_layouts` knows how GPUs can be partitioned, `plan_columns` what plans take of a cluster,
`fluid_bound` what a cluster could carry at best, and `cheapest_fleet` the cheapest one that could
carry a load. `search` emulates until a cluster does, and `fleet_files` writes down how to make it.
"""

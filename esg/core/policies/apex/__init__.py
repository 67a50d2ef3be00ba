"""`apex`, the policy of our own: the cheapest plan that will probably be in time."""

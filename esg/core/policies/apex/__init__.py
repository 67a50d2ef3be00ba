"""Policy `apex`, our own: the cheapest plan that will probably be in time."""

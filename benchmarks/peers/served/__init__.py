"""Three stages that take no time, as each peer's documentation would have them built. These files
run in the environments of the peers, not in ours."""

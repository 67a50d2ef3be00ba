"""One worker node: its vCPUs, its slices and the models on them, in live time."""

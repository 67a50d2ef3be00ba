"""What the mesh adds: pipelines of three stages that take no time, through real processes."""

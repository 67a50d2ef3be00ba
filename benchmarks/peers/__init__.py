"""The mesh beside other servers of pipelines: the same stages, the same clients, the same run."""

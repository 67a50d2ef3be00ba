"""gRPC as all services use it: servers, channels, status codes, streams, probes."""

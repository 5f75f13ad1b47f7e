"""Images that are built and containers that run, by podman: `make container-smoke` and `make demo-cluster`."""

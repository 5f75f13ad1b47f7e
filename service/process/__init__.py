"""The processes of the service: start, the HTTP server, and several workers."""

"""What any HTTP service has: bounded connections, middleware, API keys, problems, deadlines, event streams."""

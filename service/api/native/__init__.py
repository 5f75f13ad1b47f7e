"""Our own protocol: its routes, and its answers and events."""

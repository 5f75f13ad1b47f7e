"""The sandbox: confined processes that decode images."""

"""Recipes that train the bundled models: seeded, on a CPU, in minutes."""

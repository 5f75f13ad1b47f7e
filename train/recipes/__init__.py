"""Recipes: one module for each kind of model, with `train(name, run)`, and `STEPS` by name."""

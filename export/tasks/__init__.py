"""The plans of each task: its graphs, and their inputs and outputs."""

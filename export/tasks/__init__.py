"""Plans of what is exported for each task: its graphs, and their inputs and outputs."""

"""The gradient of a graph, plain or balanced, and the methods that explain a score by it."""

"""Models whose maps and values are outputs, as they are traced."""

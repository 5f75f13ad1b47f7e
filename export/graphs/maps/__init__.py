"""What is read off the maps of a graph, of all tokens or of windows."""

"""What every graph is made and changed with: the builder, tensors, the base graph and its parts."""

"""A definition of ours is sized and filled: what the families have in common."""

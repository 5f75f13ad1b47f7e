"""What an answer rests on: of maps, and of gradients."""

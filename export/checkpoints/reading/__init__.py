"""What is read of a folder: its JSON files, its tokenizer, its card and its tensors. It needs no PyTorch."""

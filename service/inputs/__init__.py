"""The inputs of models: texts become tokens, and images become pixels."""

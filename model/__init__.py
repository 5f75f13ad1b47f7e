"""PyTorch definitions: what the models compute. How fast they run is the business of `export` and `service`."""

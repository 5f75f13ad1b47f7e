"""Reading requests: bodies in JSON, forms and raw bytes, and the options in them."""

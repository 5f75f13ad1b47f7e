"""The OpenAPI document: the types of bodies that the routes parse and write themselves, and how it is put together."""

"""What writes the methods of models and answers into `regard`: `.venv/bin/python -m client.signatures`."""

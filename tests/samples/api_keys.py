"""API keys as a client sends them and as the file of keys holds them."""

import hashlib

EVERY_SCOPE = "predict,admin,metrics"


def line(key, scopes="predict", name="somebody"):
    """Return the line of a file of keys that knows a key."""
    return f"{hashlib.sha256(key.encode()).hexdigest()} {scopes} {name}\n"


def bearer(key):
    """Return the header that carries a key."""
    return {"Authorization": f"Bearer {key}"}

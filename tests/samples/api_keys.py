"""API keys as a client sends them and as the file of keys holds them."""

import hashlib

EVERY_SCOPE = "predict,admin,metrics"


def line(key, scopes="predict", name="somebody"):
    return f"{hashlib.sha256(key.encode()).hexdigest()} {scopes} {name}\n"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}

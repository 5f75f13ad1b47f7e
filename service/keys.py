"""The command `python -m service.keys NAME`, which makes an API key."""

import argparse
import hashlib
import secrets
import sys

from service.http.api_keys import NAME, SCOPES


def main() -> int:
    """Make a key: print the key once to standard error, for a person, and its line of the file to standard output."""
    parser = argparse.ArgumentParser(prog="python -m service.keys", description="Make an API key.")
    parser.add_argument("name", help="whose key it is, as the log will say: letters, digits, . _ -")
    parser.add_argument("--scopes", default="predict", help=f"comma separated, of {', '.join(SCOPES)}")
    given = parser.parse_args()
    if not NAME.fullmatch(given.name):
        parser.error("name: must be 1 to 64 letters, digits, . _ -")
    if not set(given.scopes.split(",")) <= set(SCOPES):
        parser.error(f"scopes: must be of {', '.join(SCOPES)}")
    key = secrets.token_urlsafe(32)
    print(f"the key, shown once: {key}", file=sys.stderr)  # noqa: T201 # for a person
    print(hashlib.sha256(key.encode()).hexdigest(), given.scopes, given.name)  # noqa: T201 # for the file
    return 0


if __name__ == "__main__":
    sys.exit(main())

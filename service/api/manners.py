"""Which protocol a request speaks, as far as the manner of its errors goes, before it is routed."""

from service.http.problems import Manner, problem


def manner_of(method: str, path: str) -> Manner:
    """Return how errors of a method and path are written."""
    return problem

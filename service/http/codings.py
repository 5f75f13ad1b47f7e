"""Answers packed by gzip, for clients that unpack them."""

import gzip
import re

from starlette.requests import Request
from starlette.responses import Response

from service.http.header_parameters import split_value

NOT_TAKEN = re.compile(r";\s*q=0(\.0*)?\s*", re.IGNORECASE)
"""The weight of a coding that a client does not take (RFC 9110, section 12.4.2)."""
LEVEL = 6
"""Of what is packed anew for each client: a list of models in a third of a millisecond."""


def takes_gzip(request: Request) -> bool:
    """Return whether the Accept-Encoding header of a request names gzip (RFC 9110, section 12.5.3)."""
    codings = map(split_value, request.headers.get("accept-encoding", "").split(","))
    return any(coding == "gzip" and not NOT_TAKEN.fullmatch(weight) for coding, weight in codings)


def packed(request: Request, response: Response) -> Response:
    """Return a whole answer packed, if its client unpacks it; else as it is. For what says nothing of one client."""
    if not takes_gzip(request):
        response.headers["Vary"] = "Accept-Encoding"
        return response
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    content = gzip.compress(response.body, LEVEL, mtime=0)
    return Response(content, response.status_code, headers, response.media_type)

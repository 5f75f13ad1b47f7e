"""Our HTTP interface: routes, parsing of requests, answers, OpenAPI and the page."""

"""Write docs/limits.md from the rows below and the settings they name: `python -m docs.limits`."""

from pathlib import Path

from docs.settings import bounds
from service.settings import PREFIX, Settings

ROWS = [
    # What a client may do, what it is answered, the settings that bound it or words for what is fixed.
    ("**The socket**",),
    ("a connection beyond the most, to one port", "503, closed unread", "max_connections"),
    ("a head that does not end, a byte at a time or not at all", "408, closed; silence is closed in silence", "header_seconds"),
    ("an idle connection", "closed", "keep_alive_seconds"),
    ("a long URL", "414, closed", "max_url_bytes"),
    ("many or long headers, or fields behind a body", "431, closed while they arrive; fields behind a body are dropped", "max_headers", "max_header_bytes"),
    ("no Host, or two", "400, closed", "one"),
    ("Content-Length and Transfer-Encoding, two lengths, another coding, bare LF, folded headers, NUL", "400, closed", "the parser's"),
    ("an upgrade", "ignored", "none is offered"),
    ("a client that does not read its answer, or dribbles", "cut off", "write_seconds", "body_bytes_a_second"),
    ("**The body**",),
    ("a body announced too large, on any path", "413 before it is read", "max_body_bytes"),
    ("a body that grows too large unannounced", "413 as soon as it is counted", "max_body_bytes", "max_text_bytes", "max_image_bytes"),
    ("a body of many small pieces", "413", "max_body_pieces"),
    ("a body that is slow, or does not end", "408, closed", "body_seconds", "body_bytes_a_second"),
    ("a body that still arrives after its answer", "read to nowhere, then closed", "body_seconds"),
    ("many bodies at once", "429 with Retry-After", "queue_body_bytes"),
    ("a compressed body", "415", "none is read"),
    ("JSON nested deeply, NaN, 1e400, half a surrogate, another encoding", "400", "1024 levels, the parser's"),
    ("unknown options, options of another type or twice", "422", "strict types"),
    ("a form of many files, fields, or long fields; a form cut short", "400 or 422; in memory only, no file name is used", "max_inputs", "32 fields of 64 KiB"),
    ("**What is asked for**",),
    ("many images or texts in a request", "422", "max_inputs"),
    ("a long text, of one word or many", "413 before it is read as tokens, 422 after", "max_text_bytes", "the model's tokens"),
    ("an image of many pixels, or many scans", "413, or 422, from its header", "max_image_pixels", "200 scans"),
    ("an image that crashes, hangs or fills whoever decodes it", "422; its decoder is replaced, nothing else notices", "decode_seconds", "decode_bytes"),
    ("many tokens to generate, many beams", "422", "the model's tokens", "max_beams"),
    ("attention of a thousand times the request's size", "413 with the size, before anything runs", "max_answer_bytes"),
    ("more requests than the device can do", "429 with Retry-After", "queue_tokens", "queue_map_bytes", "key_in_flight"),
    ("a request that takes long", "504", "request_seconds"),
    ("**The door**",),
    ("a host that is none, or not listed", "400; `/health/*` is answered to any", "allowed_hosts"),
    ("no API key, an unknown one, two", "401 on every path but `/health/live` and `/health/ready`", "api_keys"),
    ("an API key without the path's scope", "403", "api_keys"),
    ("guessing keys by the time it takes", "sha256 of what is given, compared with every known one", "keys of 32 random bytes"),
    ("pages of other origins", "no CORS headers; never credentials", "cors_origins"),
    ("a path with control characters, `//`, `..`, or in another script", "404 before any route sees it", "letters, digits, ._~@:+-"),
    ("a model that is not there, in whatever spelling", "404; names are looked up among those loaded, never on disk", "at start"),
    ("another method, TRACE, CONNECT", "405 or 400", "closed sets"),
    ("control characters or a long X-Request-Id for the log", "an id of the service's own", "1 to 64 letters, digits, ._-"),
    ("many paths, to make many time series", "one series `other`", "closed sets"),
]  # fmt: skip


def table():
    """Return the document."""
    lines = [
        "# Limits",
        "",
        "What a client may try, what it is answered, and the setting that says where; units are in",
        "[settings.md](settings.md). Answers are problem details (RFC 9457), those of the socket too.",
        "",
        "The limit of open files must be above `REGARD_MAX_CONNECTIONS` and some fifty for the service itself. Idle",
        "connections count among the most there may be: whoever probes health where many strangers connect should do so",
        "on a port of its own.",
        "",
        "| Attempt | Answer | Limit |",
        "|---|---|---|",
    ]
    for attempt, *rest in ROWS:
        answer, *limits = rest or ("", "")
        lines.append(f"| {attempt} | {answer} | {'; '.join(map(_limit, limits))} |")
    return "\n".join(lines) + "\n"


def _limit(text):
    field = Settings.model_fields.get(text)
    if field is None:
        return text
    default = (
        "off" if field.default is None else f"{field.default:g}" if isinstance(field.default, float) else field.default
    )
    within = bounds(text)
    return f"`{PREFIX}{text.upper()}` {default}" + (f" ({within})" if within else "")


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(table())

"""Write docs/limits.md from the rows below and the settings they name: `python -m docs.limits`."""

from pathlib import Path

from docs.settings import bounds
from service.process.open_files import OWN_FILES
from service.settings import PREFIX, Settings

ROWS = [
    # What a client does, the answer, then the settings that limit it, or words for a limit that is fixed.
    ("**Connection**",),
    ("more connections to one port than allowed", "the one that has been idle for longest is closed, between two requests or before its first byte; or else the one that has gone on sending for longest after an early answer, which its client may lose; if there is neither, 503, closed", "max_connections"),
    ("a request head that does not end, or arrives byte by byte", "408, closed; a connection that sends nothing is closed without an answer", "header_seconds"),
    ("an idle connection", "closed", "keep_alive_seconds"),
    ("a long URL", "414, closed", "max_url_bytes"),
    ("many or long headers, or trailer fields after a body", "431, closed while they arrive; trailer fields are dropped", "max_headers", "max_header_bytes"),
    ("no Host header, or two", "400, closed", "exactly one; HTTP/1.0 may have none, which is no host that is listed"),
    ("Content-Length and Transfer-Encoding together, two lengths, a transfer coding other than `chunked`, any in HTTP/1.0, bare LF, folded headers, NUL", "400, closed", "the parser, and `chunked` alone"),
    ("another version than HTTP/1.0 or HTTP/1.1", "400, closed", "fixed"),
    ("a protocol upgrade", "ignored: the request is answered, and its body is read as its body", "none is offered"),
    ("many requests at once on one connection", "answered one after another", "those that one read brings, at most 256 KiB; then reading pauses"),
    ("a client that does not read its answer, or reads it very slowly", "disconnected", "write_seconds", "body_bytes_a_second"),
    ("many clients that read large answers or streams slowly", "their bytes have a limit; beyond it the connection that has taken nothing for longest is closed. Beside it each connection buffers at most 128 KiB", "unread_bytes", "max_connections"),
    ("**Body**",),
    ("a Content-Length that is too large, on any path", "413 before the body is read", "max_body_bytes"),
    ("a body without Content-Length that grows too large", "413 as soon as the limit is passed", "max_body_bytes", "max_text_bytes", "max_image_bytes", "max_audio_bytes"),
    ("a body of many small pieces", "413", "max_body_pieces"),
    ("a body that is slow, or does not end", "408, closed", "body_seconds", "body_bytes_a_second"),
    ("a client that closes its sending side before its answer", "taken for one that has left, and not answered", "fixed"),
    ("a body that still arrives after its answer", "read and discarded, so that the client gets the answer; closed at a limit", "discard_bytes", "body_seconds", "a pause of 5 seconds"),
    ("a body that waits for 100 (Continue), and is refused before it is read", "the refusal without 100, then closed", "fixed"),
    ("many bodies at once, or many that do not end", "429 with Retry-After; a small body always fits: a quarter of the budget is divided among the connections (32 KiB each by default), all bodies share the rest", "queue_body_bytes", "max_connections"),
    ("a compressed body", "415", "no content coding is supported"),
    ("JSON of many values, such as a million empty lists", "413 while it arrives, before it is parsed", "16384 values; texts may hold any characters"),
    ("JSON with long texts beside images that are not ASCII", "413 while it arrives", "max_text_bytes"),
    ("long texts where a body may hold images: `/v1/embeddings`, two models that are compared", "413 once the body is read", "as many characters as a body of text may have bytes", "max_text_bytes"),
    ("deeply nested JSON, NaN, 1e400, a lone surrogate, another encoding", "400", "1024 levels, set by the parser"),
    ("a key given twice in one JSON object", "422", "each once"),
    ("base64 that is no image's or sound's, or too long", "400 or 413; inputs are counted and their lengths checked before any is decoded", "max_images", "max_image_bytes", "max_sounds", "max_audio_bytes"),
    ("unknown options, options of another type, options given twice", "422", "strict types"),
    ("many options, or long ones", "422 before they are checked one by one", "64 options of 65536 characters"),
    ("a form with many files, many fields or long fields; a form that is cut short, or has a preamble", "400 or 422; forms stay in memory, and file names are not used", "max_images", "max_sounds", "64 fields of 64 KiB; part heads of 8 KiB; boundaries of 70 characters"),
    ("a form or JSON in another charset, or header parameters that cannot be read", "415; a field that is not UTF-8: 400", "UTF-8"),
    ("**Request**",),
    ("many images, sounds or texts in a request", "422; 413 where more than 32 texts take more tokens than may wait", "max_images", "max_sounds", "max_inputs", "queue_tokens"),
    ("many labels of a request, or texts that would be read with each", "422, or 413", "256 labels; pairs of a text and a label: as many as inputs, and as many characters as a body of text may have bytes", "max_inputs", "max_text_bytes"),
    ("a long prompt that would be put before each text", "413", "prompt times texts: as many characters as a body of text may have bytes", "max_text_bytes"),
    ("many texts to rank, or a long query that would be read with each", "422, or 413", "1000 texts; query times texts: as many characters as a body of text may have bytes", "max_text_bytes"),
    ("a very long text that is read in windows, or many of them", "413", "131072 characters, 256 windows of a text; tokens in all windows: as many as a body of text may have bytes", "max_text_bytes", "queue_tokens"),
    ("a long text, of one word or many", "413 before it is split into tokens, 422 after", "max_text_bytes", "the model's token limit"),
    ("a graph of many nodes or edges", "413", "the model's, which its `inputs` say; 128 nodes and 2048 edges of those that come with the service"),
    ("an image with many pixels, a TIFF with large tiles, or a JPEG with many scans", "413, or 422, before it is decoded", "max_image_pixels", "200 scans"),
    ("a long sound, or a WAV whose header announces more than it may have", "413, of a WAV before it is decoded, of others after as many seconds as are allowed", "max_audio_seconds"),
    ("a sound of many channels, of a strange rate, or of samples that are no numbers", "422", "8 channels, 4000 to 192000 samples a second"),
    ("many images at once, or small files that are many pixels", "429 with Retry-After, before any is decoded; requests take turns, an image each", "queue_pixels"),
    ("a header that announces fewer pixels than there are", "422", "the announced size"),
    ("an image that makes its decoder crash, take too much time of a processor, or run out of memory", "422; the decoder process is replaced, and no other request is affected", "decode_seconds", "decode_bytes"),
    ("an image whose decoder does not answer in twice that time by the clock", "503 with Retry-After; the decoder process is replaced", "decode_seconds"),
    ("an image that takes over its decoder", "the process can open, connect to, start, read, signal and remove nothing; opening a file fails, and the rest ends it by SIGSYS, 422", "seccomp, on Linux"),
    ("any of these three where images are decoded on threads of the service", "it may end or take over the service; one that takes long is answered with 503, and holds its thread", "decode"),
    ("many tokens to generate, many beams", "422", "the model's token limit", "max_beams"),
    ("many texts of an input, many words to avoid, a penalty of an extreme size", "422", "128 texts, 64 words of 256 characters or 64 tokens, penalties of 0.01 to 100", "max_inputs"),
    ("many alternatives of each generated token", "422, or 413 with the size, before anything runs", "20 a token", "max_answer_bytes"),
    ("many or long answers to questions", "422, or 413", "100 a question", "max_answer_bytes"),
    ("many entities, or probabilities of tokens as tensors", "413; entities before anything runs", "max_answer_bytes"),
    ("many words of sparse embeddings", "413", "max_answer_bytes"),
    ("many masks in a text", "422", "64 in an input"),
    ("many points of a path of gradients, or many targets", "422, or 413 for both together; each point of each target is charged to the queue", "256 points, 256 targets; 4096 runs of graphs a request", "queue_map_bytes"),
    ("attention that is a thousand times larger than the request", "413 with the size, before anything runs", "max_answer_bytes"),
    ("a picture of many maps or inputs, or of a large image", "413 with its size; `width` makes it smaller", "144 panels an input", "max_image_pixels"),
    ("attention of a long input, whose maps and gradients take gigabytes to compute", "413 with the size, before anything runs", "run_bytes"),
    ("what a written token rests on, over a text that is too long for the memory or the deadline; of more tokens than there is time for", "422 with the tokens that fit, before anything runs; `limits.explained_tokens` of the model says them beforehand", "run_bytes", "request_seconds"),
    ("more requests than the device can serve", "429 with Retry-After", "queue_tokens", "queue_map_bytes", "key_in_flight"),
    ("more work than the device can finish in time at its recent speed", "429 with Retry-After, before it waits; 413 for images that would take too long alone, with what to ask less of", "a wait of 0.4 of the deadline, half of it for `priority: batch`", "request_seconds"),
    ("the same request again at once, after it was refused for lack of room", "429, for a second, before its body is read, after 0.04 seconds", "by client, path, query and length"),
    ("one client that asks for much more than others", "it waits, and 429 for it alone: clients are served alike, by key, else by address, and so are the requests of one", "an equal share of each queue as soon as it is full; a request counts for half of one at most; one row in eight of generation is left to others"),
    ("a stream that is read slowly", "its work goes on, and nothing waits for its reader", "unread_bytes"),
    ("integrated gradients of an image that would take longer than a request may, at the speed of the last minute", "422 with the `steps` that would do, or 413", "request_seconds"),
    ("a request that takes too long", "504", "request_seconds"),
    ("Open Inference Protocol: binary data whose lengths do not add up, more elements than a shape says", "400", "the bytes that came"),
    ("Open Inference Protocol: maps of inputs of very different lengths, which zeros fill up to the longest", "413", "max_answer_bytes"),
    ("Open Inference Protocol: many outputs, a long id", "400, 413", "16 outputs, ids of 256 bytes"),
    ("Open Inference Protocol: a large body to the repository, parameters that would change a model", "413, 400", "64 KiB; models come from the folder of artifacts alone"),
    ("Hugging Face: many candidates of masks, each with its whole text", "413 before anything runs", "max_answer_bytes"),
    ("Hugging Face: texts of many tokens to tokenize", "413", "max_answer_bytes"),
    ("**Hosts, keys and paths**",),
    ("a host that is malformed or not listed", "400; for a host that is not listed, `/health/*`, `/v2/health/*` and the admin port are answered", "allowed_hosts"),
    ("no API key, an unknown key, or two keys", "401, except for `/health/live`, `/health/ready`, the same below `/v2`, the page, `/docs` and `/openapi.json`", "api_keys"),
    ("an API key without the path's scope", "403", "api_keys"),
    ("guessing keys from response times", "the sha256 of the given key is compared with that of every known key", "keys of 32 random bytes"),
    ("web pages of other origins", "no CORS headers, never credentials; where some origins are listed, a preflight request of another is refused with 400, in plain text; 403 for all but GET and HEAD, whatever the content type, of a service without keys that only its machine can reach", "cors_origins"),
    ("a web page whose name comes to stand for this machine (DNS rebinding)", "400: of a service that only its machine can reach, no host but its own is answered", "`localhost`, `127.0.0.1`, `[::1]`, unless `REGARD_ALLOWED_HOSTS` names others"),
    ("a web page that calls the admin or the probe port", "403 for whatever has an Origin, which browsers send with every POST", "fixed"),
    ("a path with control characters, `//`, `..`, or in another script", "404 before routing", "letters, digits, ._~@:+-"),
    ("a path with a slash at its end, and a Host to be redirected to", "404; nothing is redirected", "fixed"),
    ("a model that does not exist, in any spelling", "404; names are looked up among the loaded models, never on disk", "at start"),
    ("another method, TRACE, CONNECT", "405 or 400", "closed sets"),
    ("asking for attention by another key's id, or giving one as X-Request-Id", "404, as for an unknown id; answers' ids are random and the service's own, X-Request-Id is for logs alone", "names of keys"),
    ("control characters in X-Request-Id, or a long one, to spoil the log", "the service makes its own id", "1 to 64 letters, digits, ._-"),
    ("many paths, to create many time series", "one series `other`", "closed sets"),
]  # fmt: skip


def table():
    """Return the document."""
    lines = [
        "# Limits",
        "",
        "This table says what a client may try, what the answer is, and which setting is the limit. The units are in",
        "[settings.md](settings.md). Answers are problem details (RFC 9457), also those for a connection; other protocols",
        "have their own form of errors, and may know fewer statuses ([clients.md](clients.md)).",
        "",
        "Each port counts its own connections, and every process (`REGARD_WORKERS`) has a limit of open files. At its",
        f"start a process raises the soft limit to the connections of all its ports plus {OWN_FILES} for itself. If the hard limit",
        "is lower, it logs `open files may be too few`: raise that limit, or lower `REGARD_MAX_CONNECTIONS`, since without",
        "a free file no port answers. If many unknown clients can connect, let the probe of liveness ask a port of its own",
        "(`REGARD_PROBE_PORT`, at most 64 connections more).",
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

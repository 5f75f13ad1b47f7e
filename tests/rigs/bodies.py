"""Hostile bodies and headers: they cost little to send, and could cost much to read."""

from collections.abc import Iterator

from tests.rigs.client import request

LARGE, SMALL = 16 << 20, 1 << 20
CLASSIFY, GENERATE = "/v1/models/digits/classify", "/v1/models/dates/generate"
JSON = "application/json"
FORM = "multipart/form-data; boundary=x"
FILE = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
END = b"\r\n--x--\r\n"


def filled(start, item, end, size):
    """Return `start`, as many items as fit, and `end`."""
    return start + item * ((size - len(start) - len(end)) // len(item)) + end


def documents(size):
    """Return JSON bodies of about a size, by name."""
    keys = b",".join(b'"%d":0' % number for number in range(size // 11))
    return {
        "lists": filled(b"[", b"[],", b"0]", size),
        "open lists": b"[" * size,
        "objects in a list": filled(b"[", b"{},", b"0]", size),
        "an image and keys": b'{"images":["AAAA"],' + keys[: size - 40].rpartition(b",")[0] + b"}",
        "options": b'{"inputs":"x",' + keys[: size - 40].rpartition(b",")[0] + b"}",
        "empty texts": filled(b'{"images":[', b'"",', b'""]}', size),
        "empty inputs": filled(b'{"inputs":[', b'"",', b'""]}', size),
        "quotes": b'"' * size,
        "backslashes": filled(b'{"images":["', rb"\\", b'"]}', size),
        "escaped quotes": filled(b'{"images":["', rb"\"", b'"]}', size),
        "escapes": filled(b'{"images":["', rb"\u0041", b'"]}', size),
        "escapes of letters": filled(b'{"images":["', rb"\u00e9", b'"]}', size),
        "one base64": filled(b'{"images":["', b"AAAA", b'"]}', size),
        "base64 of ten MB": filled(b'{"images":["', b"iVBO", b'"]}', min(size, 13_900_000)),
        "base64 in an option": filled(b'{"images":["AAAA"],"attention":"', b"AAAA", b'"}', size),
        "commas in an option": filled(b'{"images":["AAAA"],"attention":{"evaluate":"', b",", b'"}}', size),
        "indices in an option": filled(b'{"images":["AAAA"],"attention":{"layers":"', b"1,", b'1"}}', size),
        "one emoji": filled(b'{"images":["', b"A", "😀".encode() + b'"]}', size),
        "emojis": filled(b'{"images":["', "😀".encode(), b'"]}', size),
        "digits": filled(b'{"images":', b"1", b"}", size),
        "decimals": filled(b'{"images":0.', b"1", b"}", size),
        "white space": filled(b"", b" ", b'{"images":[]}', size),
        "colons": b":" * size,
    }


def forms(size):
    """Return forms of about a size, by name, each with its Content-Type and body."""
    field = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    head = b'Content-Disposition: form-data; name="image"; filename="' + b";" * 4000 + b'"\r\n'
    long = "a" * 70
    bodies = {
        "one file": filled(FILE, b"a", END, size),
        "many fields": filled(b"", field, END, size),
        "many files": filled(b"", FILE + b"a\r\n", END, size),
        "empty parts": filled(b"", b"--x\r\n\r\n\r\n", END, size),
        "a long head": filled(b"--x\r\nContent-Disposition: ", b"a", b"\r\n\r\na" + END, size),
        "many heads": filled(b"--x\r\n", b"A: b\r\n", b"\r\na" + END, size),
        "semicolons in heads": (b"--x\r\n" + head + b"\r\na\r\n") * 33 + b"--x--\r\n",
        "nearly delimiters": filled(FILE, b"\r\n--xZ", END, size),
        "nearly ends": filled(FILE, b"\r\n--x-Z", END, size),
        "line ends": filled(FILE, b"\r\n", END, size),
        "preamble": filled(b"", b"a", END, size),
        "preamble of line ends": filled(b"", b"\r\n", b"--x--", size),
        "padding": filled(b"--x", b" ", b"\r\n\r\n" + END, size),
        "epilogue": filled(FILE + b"a" + END, b"a", b"", size),
        "one field": filled(b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n', b"a", END, size),
    }
    found = {name: (FORM, body) for name, body in bodies.items()}
    found["a long boundary"] = (f"multipart/form-data; boundary={long}", filled(FILE, b"a", END, size))
    for charset in ("punycode", "undefined", "utf-7", "idna"):
        found[f"charset {charset}"] = (
            f"{FORM}; charset={charset}",
            filled(FILE[:-24] + b"\r\n\r\n", b"a", END, SMALL * 2),
        )
    punycode = b'--x\r\nContent-Disposition: form-data; name="' + b"a" * 4000 + b'"\r\n\r\n' + b"a" * 65000 + b"\r\n"
    found["fields in punycode"] = (f"{FORM}; charset=punycode", punycode * 31 + b"--x--\r\n")
    return found


def attacks():
    """Return (name, path, headers, body) of each attack."""
    for size, path in ((LARGE, CLASSIFY), (SMALL, GENERATE)):
        for name, body in documents(size).items():
            yield f"{size >> 20} MiB of JSON: {name}", path, {"Content-Type": JSON}, body
    for name, (kind, body) in forms(LARGE).items():
        yield f"form: {name}", CLASSIFY, {"Content-Type": kind}, body
    yield "10 MiB raw", CLASSIFY, {"Content-Type": "image/png"}, bytes(10 << 20)
    long = 15_500
    for name, headers in {
        "Content-Type of semicolons": {"Content-Type": 'image/png; x="' + ";" * long + '"'},
        "Content-Type of open quotes": {"Content-Type": JSON + '; x="' + ';"' * (long // 2)},
        "Content-Type of parameters": {"Content-Type": JSON + ";a=b" * (long // 4)},
        "Content-Type of parts": {"Content-Type": JSON + "".join(f"; a*{n}=b" for n in range(long // 10))},
        "Content-Type of spaces": {"Content-Type": JSON + ";" + " " * long + "x"},
        "Authorization": {"Authorization": "Bearer " + " a" * (long // 2), "Content-Type": JSON},
        "traceparent": {
            "traceparent": "00-" + "a" * 32 + "-" + "a" * 16 + "-01-" + "a " * (long // 2),
            "Content-Type": JSON,
        },
        "X-Request-Id": {"X-Request-Id": "a" * long, "Content-Type": JSON},
        "Cookie": {"Cookie": "a=b;" * (long // 4), "Content-Type": JSON},
    }.items():
        yield f"header: {name}", CLASSIFY, headers, b"{}"
    options = "&".join(f"{n}=" for n in range(1500))
    yield "query of options", f"{CLASSIFY}?{options}", {"Content-Type": "image/png"}, b"a"
    for name, value in {
        "commas": "a," * (long // 2),
        "semicolons": "image/png" + ";q=1" * (long // 4),
        "types": "image/png," * (long // 10),
    }.items():
        yield (
            f"header: Accept of {name}",
            "/v1/models/digits/attention",
            {"Accept": value, "Content-Type": "image/png"},
            b"a",
        )
    yield "header: Range", "GET /", {"Range": "bytes=" + ",".join(f"{2 * n}-{2 * n}" for n in range(1400))}, None


def requests() -> Iterator[tuple[str, bytes]]:
    """Return the name of each attack and its request."""
    for name, path, headers, body in attacks():
        method, _, target = path.rpartition(" ")
        yield (
            name,
            request(method or "POST", target, body or b"", **{one.replace("-", "_"): headers[one] for one in headers}),
        )

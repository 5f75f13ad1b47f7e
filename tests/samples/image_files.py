"""TIFF, GIF and BMP written byte by byte, so that what is read of them has a reference that is not Pillow's."""

import struct
import zlib

import numpy as np


def packed(samples, bits, order=">"):
    """Return rows of samples, (rows, samples), each row from a new byte, of 1 to 16 bits a sample."""
    if bits in (8, 16):
        return samples.astype(np.uint8 if bits == 8 else f"{order}u2").tobytes()
    planes = np.unpackbits(samples.astype(">u2").view(np.uint8).reshape(*samples.shape, 2), axis=2)[..., -bits:]
    return np.packbits(planes.reshape(len(samples), -1), axis=1).tobytes()


def tiff(samples, photometric, bits=8, order="<", *, deflate=False, more=()):
    """Return a TIFF of samples (rows, columns[, samples]), in one strip; `more` are tags: number, type, values."""
    rows, columns, *each = samples.shape
    many = each[0] if each else 1
    body = packed(samples.reshape(rows, -1), bits, order)
    body = zlib.compress(body) if deflate else body
    tags = {
        256: (4, [columns]), 257: (4, [rows]), 258: (3, [bits] * many), 259: (3, [8 if deflate else 1]),
        262: (3, [photometric]), 273: (4, [0]), 277: (3, [many]), 278: (4, [rows]), 279: (4, [len(body)]),
    } | {tag: (kind, values) for tag, kind, values in more}  # fmt: skip
    directory, behind = 8 + 2 + 12 * len(tags) + 4, b""
    entries = {}
    for tag, (kind, values) in sorted(tags.items()):
        value = struct.pack(order + {2: "B", 3: "H", 4: "I"}[kind] * len(values), *values)
        if len(value) > 4:
            behind += value
            value = struct.pack(order + "I", directory + len(behind) - len(value))
        entries[tag] = struct.pack(order + "HHI", tag, kind, len(values)) + value.ljust(4, b"\0")
    entries[273] = entries[273][:8] + struct.pack(order + "I", directory + len(behind))
    head = b"II*\0" if order == "<" else b"MM\0*"
    count = struct.pack(order + "IH", 8, len(tags))
    return head + count + b"".join(entries.values()) + bytes(4) + behind + body


def gif(indices, palette, *, screen=None, at=(0, 0), transparent=None, interlaced=False, extensions=b"", local=False):
    """Return a GIF of indices into 256 colours, whose codes are not compressed, on a screen (width, height)."""
    rows, columns = indices.shape
    width, height = screen or (columns, rows)
    colours = np.asarray(palette, np.uint8).tobytes().ljust(768, b"\0")
    control = b"" if transparent is None else b"!\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0"
    if interlaced:  # every eighth row, those between, and so on (GIF89a, appendix E)
        indices = np.concatenate([indices[begin::step] for begin, step in ((0, 8), (4, 8), (2, 4), (1, 2))])
    codes = []
    for index, value in enumerate(indices.ravel()):
        codes += [256] * (index % 254 == 0) + [int(value)]  # cleared before codes become wider than 9 bits
    bits = sum(code << 9 * place for place, code in enumerate([*codes, 257]))
    data = bits.to_bytes(-(-9 * (len(codes) + 1) // 8), "little")
    blocks = b"".join(bytes([len(part)]) + part for part in (data[i : i + 255] for i in range(0, len(data), 255)))
    place = struct.pack("<HHHHB", *at, columns, rows, interlaced << 6 | (0x87 if local else 0))
    screen_head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0 if local else 0xF7, 0, 0)
    head = screen_head + (b"" if local else colours) + extensions + control + b"," + place
    return head + (colours if local else b"") + b"\x08" + blocks + b"\0;"


def bmp(pixels, bits=24, palette=None, *, upwards=True, masks=None):
    """Return a bitmap of pixels (rows, columns, 3 or 4), or of indices (rows, columns) into a palette."""
    rows = pixels[::-1] if upwards else pixels
    if palette is not None:
        lines = [packed(row[None], bits) for row in rows]
    elif bits == 16:
        lines = [(row[:, 0] // 8 << 10 | row[:, 1] // 8 << 5 | row[:, 2] // 8).astype("<u2").tobytes() for row in rows]
    else:
        lines = [row[:, [2, 1, 0, 3][: bits // 8]].astype(np.uint8).tobytes() for row in rows]
    body = b"".join(line.ljust(-(-len(line) // 4) * 4, b"\0") for line in lines)
    colours = b"" if palette is None else np.insert(np.asarray(palette)[:, ::-1], 3, 0, 1).astype(np.uint8).tobytes()
    extra = struct.pack("<IIII", *masks) + bytes(52) if masks else b""
    height = len(pixels) * (1 if upwards else -1)
    start = 14 + 40 + len(extra) + len(colours)
    info = struct.pack("<IiiHHIIiiII", 40 + len(extra), pixels.shape[1], height, 1, bits, 3 if masks else 0, len(body),
                       0, 0, len(colours) // 4, 0)  # fmt: skip
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + info + extra + colours + body

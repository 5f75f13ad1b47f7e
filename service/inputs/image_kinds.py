"""The kinds of files that are sent as images, by their first bytes: which are decoded, and what to send of others."""

import re

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
"""What is decoded, by Pillow's names; of an animation or of several pages the first."""
PICTURE = "send it as PNG or JPEG"

_SIGNATURES = {
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "WEBP": rb"RIFF.{4}WEBP",
    "GIF": rb"GIF8[79]a",
    "BMP": rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",  # and the size of a header that is known
    "TIFF": rb"II[*+]\0|MM\0[*+]",  # the second of either is a BigTIFF
    "AVIF": rb".{4}ftyp(.{4}){0,15}?avi[fs]",  # one of its brands (ISO/IEC 14496-12, section 4.3)
    "HEIC": rb".{4}ftyp(.{4}){0,15}?(hei[cmsx]|hev[cmsx]|m[is]f1)",
    "JPEG 2000": rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    "JPEG XL": rb"\0\0\0\x0cJXL |\xff\x0a",
    "video": rb".{4}ftyp|\x1aE\xdf\xa3|RIFF.{4}AVI ",
    "ICO": rb"\0\0[\1\2]\0[^\0]\0",
    "PSD": rb"8BPS",
    "PDF": rb"%PDF-",
    "SVG": rb"(\xef\xbb\xbf)?\s*<(svg|(\?xml|!--|!DOCTYPE svg).*?<svg)\b",
    "HTML": rb"(\xef\xbb\xbf)?\s*<(!DOCTYPE html|html)\b",
    "data: URL": rb"data:image/",
}
_HEAD = 1024
"""Bytes that are looked at: an SVG may begin with comments."""
_KINDS = {name: re.compile(pattern, re.DOTALL | re.IGNORECASE) for name, pattern in _SIGNATURES.items()}

INSTEAD = {
    "HEIC": PICTURE,
    "JPEG 2000": PICTURE,
    "JPEG XL": PICTURE,
    "video": "send a picture of it as PNG or JPEG",
    "ICO": "send one of its pictures as PNG",
    "PSD": PICTURE,
    "PDF": "send a page of it as PNG or JPEG",
    "SVG": "send it drawn, as PNG",
    "HTML": "send the file of the image that the page shows",
    "data: URL": "send its bytes, or the whole of it in JSON",
}
"""What to send in place of a kind that is not decoded."""


def kind_of(data: bytes) -> str | None:
    """Return one of FORMATS or of INSTEAD that bytes begin like, or None."""
    return next((name for name, pattern in _KINDS.items() if pattern.match(data[:_HEAD])), None)

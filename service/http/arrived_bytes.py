"""Bytes of a connection that have arrived and are not parsed yet."""

MOST_PIPELINED = 16
"""While so many requests of a connection wait behind the one that is answered, no more of it is parsed or read."""
PIECE_BYTES = 4096
"""Of what may hold more heads than that, so much is parsed at a time."""


class ArrivedBytes:
    """What has arrived: it is parsed in pieces that hold few heads, so that few requests wait for their turn."""

    def __init__(self) -> None:
        self._left = b""

    def __len__(self) -> int:
        return len(self._left)

    def add(self, data: bytes) -> None:
        """Add what arrives."""
        self._left += data

    def take(self) -> bytes:
        """Remove and return the next piece: all, unless that may hold many heads."""
        few = self._left.count(b"\r\n\r\n") <= MOST_PIPELINED
        piece = self._left if few else self._left[:PIECE_BYTES]
        self._left = self._left[len(piece) :]
        return piece

    def clear(self) -> None:
        """Forget the rest."""
        self._left = b""

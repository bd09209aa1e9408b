"""Collects the output of a command within a size limit: keeps the beginning and the end, counts the rest."""

from collections import deque


class BoundedOutput:
    """Keeps at most `head_bytes` of the beginning and about `tail_bytes` of the end."""

    def __init__(self, *, head_bytes: int = 262_144, tail_bytes: int = 786_432) -> None:
        """Start empty."""
        self._head = bytearray()
        self._head_bytes = head_bytes
        self._tail: deque[bytes] = deque()
        self._tail_bytes = tail_bytes
        self._kept_tail = 0
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece of output."""
        self.total += len(piece)
        room = self._head_bytes - len(self._head)
        self._head += piece[:room]
        rest = piece[room:] if room > 0 else piece
        if not rest:
            return
        self._tail.append(rest)
        self._kept_tail += len(rest)
        while self._kept_tail - len(self._tail[0]) >= self._tail_bytes:
            self._kept_tail -= len(self._tail.popleft())

    @property
    def dropped(self) -> int:
        """The number of bytes left out."""
        return self.total - len(self._head) - self._kept_tail

    @property
    def text(self) -> str:
        """The output, with a note where bytes were left out. Bytes that are not UTF-8 are replaced."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self.dropped:
            return (head + tail).decode(errors="replace")
        note = f"\n[… {self.dropped} bytes of the output left out here …]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")

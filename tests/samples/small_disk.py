"""A disk of a few megabytes, for tests that fill it."""

import contextlib
import subprocess


class SmallDisk:
    """A file system in memory, mounted on a folder."""

    def __init__(self, folder, size):
        self.folder = folder
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
        self.mounted = subprocess.run(command, capture_output=True).returncode == 0

    def fill(self, leave=0):
        """Take all the room that is left, but for some bytes."""
        with (self.folder / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        with (self.folder / "filler").open("ab") as filler:
            filler.truncate(filler.tell() - leave)

    def empty(self):
        """Give the room back."""
        (self.folder / "filler").unlink()

    def close(self):
        """Unmount it."""
        subprocess.run(["umount", "--lazy", self.folder], check=self.mounted, capture_output=True)

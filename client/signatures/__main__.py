"""Writes the files: `.venv/bin/python -m client.signatures`."""

from client.signatures.written import FOLDER, files

if __name__ == "__main__":
    for name, code in files().items():
        (FOLDER / name).write_text(code)

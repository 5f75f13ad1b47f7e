"""Builds a site of the docs: the same files, with a search that needs no network.

make docs    # writes build/site/index.html

The pages, and the files that they link to, are copied as they lie in the repository, so that every link stays true;
mkdocs (strict) then fails where a link or an anchor leads nowhere.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
PAGES = (
    "*.md",
    "docs/**/*.md",
    "client/*.md",
    "benchmarks/*.md",
    "model/bundled/*/README.md",
    "tests/data/*/README.md",
)
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")
"""A link to a file, by its path from the page."""
NAV = {
    "Start": ["README.md", "docs/README.md"],
    "Use": ["docs/python.md", "docs/api.md", "docs/clients.md", "docs/page.md", "docs/checkpoints.md"],
    "Explain": ["docs/attention.md", "docs/notes.md"],
    "Operate": [
        "docs/operations.md", "docs/kubernetes.md", "docs/gpu.md", "docs/settings.md", "docs/limits.md",
        "docs/capacity.md", "docs/runbooks.md", "docs/support.md", "SECURITY.md",
    ],
    "Evidence": [
        "benchmarks/RESULTS.md", "docs/quality.md", "docs/reliability.md", "docs/variants.md", "docs/bottleneck.md",
        "docs/demo-cluster.md",
    ],
    "Contribute": ["CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"],
}  # fmt: skip


def stage(pages: Path) -> None:
    """Copy every page, and every file that one links to; a link to a folder leads to a list of its files."""
    shutil.rmtree(pages, ignore_errors=True)
    found = {page for pattern in PAGES for page in ROOT.glob(pattern)}
    for page in sorted(found):
        text = page.read_text()
        for link in {target for target in LINK.findall(text) if not target.startswith("/")}:
            file = (page.parent / link).resolve()
            if file.is_dir():
                text = text.replace(f"]({link})", f"]({link.rstrip('/')}/{_index(file, found, pages)})")
            elif file.is_file() and file not in found:
                _put(pages / file.relative_to(ROOT), file.read_bytes())
        _put(pages / page.relative_to(ROOT), text.encode())


def config(pages: Path, site: Path) -> dict[str, object]:
    """Return what mkdocs is told."""
    return {
        "site_name": "regard",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,  # links name files, as in the repository
        "theme": {
            "name": "material",
            "font": False,  # or a browser would ask another server
            "features": ["navigation.tabs", "search.highlight", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}, "pymdownx.highlight"],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}},
        "not_in_nav": "*",
        "nav": [{title: files} for title, files in NAV.items()],
    }


def _index(folder: Path, found: set[Path], pages: Path) -> str:
    """Return the page of a folder; where it has none, write one that lists its files."""
    if folder / "README.md" in found:
        return "README.md"
    files = sorted(file.name for file in folder.iterdir() if not file.name.startswith(("_", ".")))
    links = "".join(f"- [{name}]({name})\n" for name in files if (folder / name).is_file())
    for name in files:
        if (folder / name).is_file() and folder / name not in found:
            _put(pages / folder.relative_to(ROOT) / name, (folder / name).read_bytes())
    _put(pages / folder.relative_to(ROOT) / "files.md", f"# {folder.name}\n\n{links}".encode())
    return "files.md"


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def main() -> int:
    """Build the site. Returns the status of mkdocs."""
    pages, site, written = BUILD / "pages", BUILD / "site", BUILD / "mkdocs.yml"
    stage(pages)
    written.write_text(yaml.safe_dump(config(pages, site), sort_keys=False))
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", written]).returncode  # noqa: S603 # our own command; its status is returned


if __name__ == "__main__":
    sys.exit(main())

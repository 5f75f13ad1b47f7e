"""What the client ships is what the page is made of."""

from service.api.page import inline


def test_the_clients_files_are_what_the_command_writes():
    files = inline.files()
    assert {path.name for path in inline.CLIENT.iterdir()} == files.keys()
    for name, text in files.items():
        assert (inline.CLIENT / name).read_text(encoding="utf-8") == text, "run: python -m service.api.page.inline"


def test_a_document_can_hold_the_script_and_the_styles():
    files = inline.files()
    assert "</script" not in files["inline.js"].lower()
    assert "<!--" not in files["inline.js"]
    assert "</style" not in files["inline.css"].lower()

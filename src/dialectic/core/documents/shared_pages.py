"""The pages around a shared report: it asks for its pass phrase, or is not there. Pure."""

from __future__ import annotations

import html

from dialectic.core.documents.report import read_style


def build_phrase_page(*, is_wrong: bool) -> bytes:
    """Build the page that asks for a pass phrase."""
    hint = '<p class="notice" role="alert">This is not the pass phrase.</p>' if is_wrong else ""
    return _build_page(
        "This report has a pass phrase",
        f"""{hint}<form method="post">
<label for="pass_phrase">Pass phrase</label>
<input id="pass_phrase" name="pass_phrase" type="password" autocomplete="off" required autofocus>
<button>Read the report</button>
</form>""",
    )


def build_message_page(message: str) -> bytes:
    """Build the page that says why there is nothing to read."""
    return _build_page("No report here", f"<p>{html.escape(message)}</p>")


def _build_page(title: str, body: str) -> bytes:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{read_style()}</style>
</head>
<body>
<header><h1>{title}</h1></header>
<main>{body}</main>
</body>
</html>
""".encode()

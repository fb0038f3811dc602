"""Browsers on this machine: show a page in one, or let one print a file as PDF."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import webbrowser
from pathlib import Path

from dialectic.cli.terminal import say
from dialectic.errors import UsageError

PRINT_TIMEOUT_S = 120.0
# Programs that print without a window, and where macOS keeps them.
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "brave-browser",
    "chrome-headless-shell",
)
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)


async def show_page(url: str) -> None:
    """Show a page in the user's browser; where there is none, say where the page is."""
    if not await asyncio.to_thread(_open, url):
        say(f"No browser with a window was found. Open {url} in one.")


def _open(url: str) -> bool:
    """Open a browser with a window; one in the terminal would take it away from this command."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(found) is not webbrowser.GenericBrowser and found.open(url)


def get_browser() -> str:
    """Find a browser that prints to PDF, or say that there is none."""
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    for place in APPLICATIONS:
        if os.access(place, os.X_OK):
            return place
    raise UsageError(
        "No browser that can print was found: neither Chromium nor Chrome nor Edge. Omit --pdf, "
        "open the HTML file in your browser and print it from there.",
        reason="no_browser",
        subject="--pdf",
    )


async def print_pdf(browser: str, page: Path, out: Path) -> None:
    """Print a file as PDF, with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        draft = Path(folder, "report.pdf")
        process = await asyncio.create_subprocess_exec(
            browser,
            *_list_arguments(folder, page, draft),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRINT_TIMEOUT_S):
                    await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await asyncio.to_thread(_keep, browser, draft, out)


def _list_arguments(folder: str, page: Path, draft: Path) -> list[str]:
    return [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-extensions",
        f"--user-data-dir={folder}/profile",
        "--no-pdf-header-footer",
        f"--print-to-pdf={draft}",
        # The superuser has no sandbox; the page has no scripts.
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        page.resolve().as_uri(),
    ]


def _keep(browser: str, draft: Path, out: Path) -> None:
    if not draft.is_file() or not draft.stat().st_size:
        raise UsageError(
            f"{Path(browser).name} could not print the report. Omit --pdf, open the HTML file in a "
            "browser and print it from there.",
            reason="not_printed",
            subject="--pdf",
        )
    shutil.copyfile(draft, out)

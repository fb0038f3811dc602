"""A page on one's own machine: it needs no token until there is one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, Watch
from tests.scenario.test_run import Home, copy_home, wait_for

QUESTION = "What should they argue about?"
PROMPT = "A tool library for a street of forty houses."


@contextmanager
def serving(home: Home) -> Iterator[str]:
    """The web app of a home, from a process of its own."""
    server = home.start("serve", "--port", "0", "--no-worker")
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.send_signal(signal.SIGTERM)
        wait_for(server)


@pytest.mark.sentence(49)
def test_without_a_token_the_page_works_and_the_first_token_closes_it_with_its_text_kept(
    open_context: Open, watch: Watch, made_home: Path, tmp_path: Path
) -> None:
    watch.allow("status of 401")
    with copy_home(made_home, tmp_path / "home") as home, serving(home) as url:
        watch.origins.add(url)
        context = open_context()
        page, other = context.new_page(), context.new_page()
        page.goto(f"{url}/new")
        page.get_by_label(QUESTION).fill(PROMPT)
        expect(page.get_by_role("status", name="Connection: live")).to_be_visible()
        other.goto(url)
        expect(other.get_by_role("heading", level=1)).to_be_visible()

        token = home.tell("user", "add", "alice", "--token").stdout.split()[-1]

        for tab in (other, page):
            tab.bring_to_front()
            expect(tab.get_by_role("dialog", name="Sign in again")).to_be_visible()
        dialog = page.get_by_role("dialog", name="Sign in again")
        dialog.get_by_label("Token").fill(token)
        # Alice is another user than the one without a token: the page begins again, as hers.
        with page.expect_event("load"):
            page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        expect(page.get_by_label(QUESTION)).to_have_value(PROMPT)
        context.close()

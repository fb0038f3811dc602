"""The modules without a page: formats, the model of a session, the frames of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.site import Site

MODULES = sorted(Path(__file__).with_name("modules").glob("*.js"))
# Compares what was found with what was wanted, as JSON; maps are compared as lists.
RUN = """
async ([base, source]) => {
  const plain = (value) => JSON.stringify(value, (_, one) => (one instanceof Map ? [...one] : one));
  const wrong = [];
  let count = 0;
  const check = (name, found, wanted) => {
    count += 1;
    if (plain(found) !== plain(wanted)) wrong.push([name, plain(found), plain(wanted)]);
  };
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: run } = await import(address);
  await run(base, check);
  return [count, wrong];
}
"""


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_does_what_its_assertions_say(page: Page, site: Site, module: Path) -> None:
    # A page without a policy of its own, at the address of the files.
    page.route(
        "**/empty", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>")
    )
    page.goto(f"{site.url}/settings")
    base = page.evaluate("() => document.documentElement.dataset.base")
    page.goto(f"{site.url}/empty")

    count, wrong = page.evaluate(RUN, [site.url + base, module.read_text("utf-8")])

    assert wrong == []
    assert count > 0

"""Reading artifacts out of hostile text takes time in proportion to its length."""

from __future__ import annotations

import time

from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.echoes import cut_echoes
from tests.cases import each_case
from tests.unit.core.documents.test_artifacts import GAPS, PLAN, RISKS

HOSTILE = {
    "blanks": "# " + " " * 200_000 + "x",
    "closing marks": "## " + " #" * 200_000 + "x",
    "headings": "# a\n## b\n" * 50_000,
    "nested headings": "# a\n## b\n### c\n#### d\n##### e\n###### f\n" * 15_000,
    "fences": "```\n" * 100_000,
    "half fences": "```a`\n" * 100_000,
    "backticks": "`" * 400_000 + "a`",
    "open braces": "{" * 400_000,
    "nested objects": '{"plan":' * 100_000,
    "nested lists": '{"plan":' + "[" * 100_000 + "]" * 100_000 + "}",
    "just parsable lists": '{"plan":' + "[" * 900 + "]" * 900 + "}",
    "carriage returns": "\r" * 400_000,
    "promised headings": "## Risks\n## Gaps\n" * 50_000,
    "promised headings with text": "## Risks: x\n\nMany.\n" * 50_000,
    "bold lines": "**Risks**\n" * 100_000,
    "half bold lines": "**Risks" * 50_000 + "\n" + "**\n" * 50_000,
    "underlines": "Risks\n---\n\n" * 50_000,
    "tags": "<h2>" * 100_000 + "\n" + "<h2>Risks</h2>\n" * 50_000,
    "blocks": "<<<BEGIN a [ab12]>>>\n" * 50_000 + "<<<END [ab12]>>>\n",
    "open blocks": "<<<END [ab12]>>>\n" + "<<<BEGIN a [ab12]>>>" * 50_000,
    "brackets": "## " + "(" * 200_000 + "Risks\n" + "## (((((Risks\n" * 20_000,
    "numbers": "## 1.1.1.1.1.1.1.1.1 Risks\n" * 50_000,
}


@each_case("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_read_in_time_that_grows_with_its_length_alone(text: str) -> None:
    started_s = time.thread_time()
    extract_documents(text, [RISKS, GAPS, PLAN])
    # Half a second is usual; whatever is quadratic takes minutes.
    assert time.thread_time() - started_s < 10.0


@each_case("text", HOSTILE.values(), ids=HOSTILE)
def test_echoes_are_cut_in_time_that_grows_with_the_length_alone(text: str) -> None:
    started_s = time.thread_time()
    cut_echoes(text, ["- Begin with the very next character of the text."])
    cut_echoes(text.replace("ab12", "0123456789ab"), [])
    assert time.thread_time() - started_s < 10.0


@each_case("words", ["```json\n", '{"', ",}", '"\\', "{,"])
def test_repairs_take_time_that_grows_with_the_answer_alone(words: str) -> None:
    extract_documents(words * 100_000, [PLAN])

"""The examples are sound, and ask the models for what they then cut out of the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.process.check import VARIABLES
from dialectic.core.process.definition import SHARED_PROMPTS
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/process.toml"))

every_example = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@every_example
def test_an_example_is_sound_and_goes_by_its_folders_name(folder: Path) -> None:
    assert load_process(folder.name, own=EXAMPLES).name == folder.name


@every_example
def test_an_example_uses_every_prompt_next_to_it(folder: Path) -> None:
    own = load_process(str(folder)).prompts.keys() - SHARED_PROMPTS.keys()
    assert own == {p.stem for p in folder.glob("prompts/*.md")}


@every_example
def test_the_prompt_of_the_final_documents_asks_for_each_of_them(folder: Path) -> None:
    process = load_process(str(folder))
    for stage in process.order:
        last = stage.steps[-1] if stage.steps else stage
        for document in stage.expected_output_artifacts:
            assert f"`{document.heading}`" in process.prompts[last.prompt_template_name]


@every_example
def test_every_prompt_of_an_example_renders_with_what_it_is_given(folder: Path) -> None:
    block = build_block("Original request", "{{ not code }}")
    given = {
        "domain": "Purchasing",
        "request": block,
        "context": [build_block("Constraints", "Cheap.")],
        "feedback": [build_block("User feedback", "More numbers.")],
        "inputs": [build_block("Pros and cons A", "First."), build_block("B", "Second.")],
        "listing": ["Pros and cons A"],
        "guidance": "Name the price.",
        "words": "900",
        "base": "B",
        "overlay": "",
        "steps": [],
        "seat": "builder",
        "stance": "Build it soon.",
    }
    assert set(given) == VARIABLES
    prompts = load_process(str(folder)).prompts
    for name in prompts.keys() - SHARED_PROMPTS.keys():
        template = prompts[name]
        text = render_template(name, template, given)
        assert "{{" not in text.replace(block, ""), name
        assert "{%" not in text, name


def test_pros_and_cons_makes_n_lists_n_times_n_weighings_and_n_verdicts() -> None:
    process = load_process(str(EXAMPLES / "pros-and-cons"))
    for models in (1, 2, 3, 5):
        outline = build_outline(process, models=models)
        assert [step.calls for step in outline.steps] == [models, models * models, models]
    assert "15 calls for three models" in (EXAMPLES / "pros-and-cons/README.md").read_text()

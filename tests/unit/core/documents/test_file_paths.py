"""Every file has one place and one path, and each is found from the other."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import (
    COUNT_MAX,
    KEY_CHARS_MAX,
    PATH_CHARS_MAX,
    STAGES_MAX,
    TURN_MAX,
    ChunkFile,
    ContributionFile,
    ContributionName,
    ExportArchive,
    GeneralResource,
    InitialPrompt,
    Intermediate,
    Place,
    ProjectFile,
    ProjectFileKind,
    RawResponse,
    Relation,
    ResourceKind,
    SeedPrompt,
    ShorteningRecord,
    StageDocument,
    StageFolder,
    UserFeedback,
    WorkItem,
    WorkStatus,
    build_path,
    fold_sources,
    parse_path,
)
from dialectic.core.slug import SLUG_CHARS_MAX, is_slug, slugify_name
from dialectic.errors import UsageError
from tests.cases import each_case
from tests.problems import refusing
from tests.properties import examples

THESIS = StageFolder("city-garden", "0a1b2c3d", 1, 1, "thesis")
ANTITHESIS = StageFolder("city-garden", "0a1b2c3d", 1, 2, "antithesis")
SYNTHESIS = StageFolder("city-garden", "0a1b2c3d", 2, 3, "synthesis")
GPT, CLAUDE = "openai-gpt-4-1", "anthropic-claude"

first_thesis = ContributionName(GPT, 1, "thesis")
critique = ContributionName(CLAUDE, 2, "antithesis", Relation("about", (GPT,)))
pairwise = ContributionName(GPT, 3, "pairwise_synthesis_chunk", Relation("from", (GPT, CLAUDE)))
reduced = ContributionName(GPT, 1, "reduced_synthesis", Relation("reducing", ("00ff00ff",)))
final = ContributionName(GPT, 1, "synthesis")

EXAMPLES: list[tuple[Place, str]] = [
    (InitialPrompt("city-garden", "plan-a-garden"), "city-garden/plan-a-garden.md"),
    (ProjectFile("city-garden", ProjectFileKind.README), "city-garden/project_readme.md"),
    (ProjectFile("city-garden", ProjectFileKind.SETTINGS), "city-garden/project_settings.json"),
    (ExportArchive("city-garden", "city-garden-export"), "city-garden/city-garden-export.zip"),
    (
        GeneralResource("city-garden", ResourceKind.REFERENCE_DOCUMENTS, "soil-report", "pdf"),
        "city-garden/general_resource/reference_documents/soil-report.pdf",
    ),
    (WorkItem("city-garden", WorkStatus.PENDING, "01-beds.md"), "city-garden/Pending/01-beds.md"),
    (WorkItem("city-garden", WorkStatus.CURRENT, "01-beds.md"), "city-garden/Current/01-beds.md"),
    (WorkItem("city-garden", WorkStatus.COMPLETE, "01-beds.md"), "city-garden/Complete/01-beds.md"),
    (
        WorkItem("city-garden", WorkStatus.CURRENT, "Meine Notizen/Größe & Boden.PDF"),
        "city-garden/Current/Meine Notizen/Größe & Boden.PDF",
    ),
    (SeedPrompt(THESIS), "city-garden/session_0a1b2c3d/iteration_1/1_thesis/seed_prompt.md"),
    (
        UserFeedback(THESIS),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/user_feedback_thesis.md",
    ),
    (
        ContributionFile(THESIS, first_thesis),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/openai-gpt-4-1_1_thesis.md",
    ),
    (
        ContributionFile(THESIS, replace(first_thesis, version=2)),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/openai-gpt-4-1_1_thesis_edit_2.md",
    ),
    (
        ContributionFile(ANTITHESIS, critique),
        "city-garden/session_0a1b2c3d/iteration_1/2_antithesis/"
        "anthropic-claude_critiquing_openai-gpt-4-1_2_antithesis.md",
    ),
    (
        ContributionFile(
            THESIS, ContributionName(GPT, 1, "fact-check", Relation("about", (CLAUDE,)))
        ),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/"
        "openai-gpt-4-1_about_anthropic-claude_1_fact-check.md",
    ),
    (
        Intermediate(SYNTHESIS, pairwise),
        "city-garden/session_0a1b2c3d/iteration_2/3_synthesis/_work/"
        "openai-gpt-4-1_from_openai-gpt-4-1_and_anthropic-claude_3_pairwise_synthesis_chunk.md",
    ),
    (
        Intermediate(SYNTHESIS, reduced),
        "city-garden/session_0a1b2c3d/iteration_2/3_synthesis/_work/"
        "openai-gpt-4-1_reducing_00ff00ff_1_reduced_synthesis.md",
    ),
    (
        ContributionFile(SYNTHESIS, final),
        "city-garden/session_0a1b2c3d/iteration_2/3_synthesis/openai-gpt-4-1_1_final_synthesis.md",
    ),
    (
        ChunkFile(THESIS, first_thesis, 0),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/_work/"
        "openai-gpt-4-1_1_thesis_continuation_0.md",
    ),
    (
        RawResponse(THESIS, first_thesis),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/raw_responses/"
        "openai-gpt-4-1_1_thesis_raw.json",
    ),
    (
        RawResponse(THESIS, first_thesis, 3),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/raw_responses/"
        "openai-gpt-4-1_1_thesis_continuation_3_raw.json",
    ),
    (
        ShorteningRecord(THESIS, "00ff00ff"),
        "city-garden/session_0a1b2c3d/iteration_1/1_thesis/raw_responses/"
        "shortening_00ff00ff_raw.json",
    ),
    (
        StageDocument(SYNTHESIS, final, "product_requirements"),
        "city-garden/session_0a1b2c3d/iteration_2/3_synthesis/documents/"
        "openai-gpt-4-1_1_final_synthesis_product-requirements.md",
    ),
]

LAYOUT_WORDS = [
    "continuation", "raw", "edit", "critiquing", "about", "from", "and", "reducing", "session",
    "iteration", "work", "documents", "seed", "prompt", "user", "feedback", "project", "readme",
    "settings", "general", "resource", "pending", "final", "synthesis", "thesis", "0", "1", "42",
    "00ff00ff", "md", "json", "zip",
]  # fmt: skip
HOSTILE_NAMES = [
    "..", "/", "a/../b", "\0", "x" * 300, "CON", "NUL", "aux", "dots...", "spaces   ", "\uff0f",
    "🚀", "\u202eabc", "UPPER", "___", "---", "m_continuation_3", "_critiquing_", "a_from_b", "raw",
    "session_", "12345", "project_readme.md", "seed_prompt", "user_feedback_thesis", "_work",
]  # fmt: skip

names = st.one_of(st.sampled_from(LAYOUT_WORDS + HOSTILE_NAMES), st.text(max_size=100))
slugs = names.map(lambda name: slugify_name(name, fallback="name"))
work_names = st.text("aZ9 .-_ü&()", min_size=1, max_size=40).filter(lambda name: name.strip("."))
work_files = st.lists(work_names, min_size=1, max_size=3).map("/".join)
short_ids = st.text("0123456789abcdef", min_size=8, max_size=8)
counts = st.integers(1, COUNT_MAX)
turns = st.integers(0, TURN_MAX)
words = slugs.filter(lambda slug: not slug.isdecimal() and len(slug) <= KEY_CHARS_MAX)
types = (
    st.lists(words, min_size=1, max_size=4)
    .map("_".join)
    .filter(lambda text: len(text) <= KEY_CHARS_MAX and text != "final_synthesis")
)
keys = (
    st.tuples(words, st.lists(slugs, max_size=3))
    .map(lambda parts: "_".join(("k", parts[0], *parts[1])).replace("-", ""))
    .filter(lambda text: len(text) <= KEY_CHARS_MAX)
)
relations = st.one_of(
    st.just(Relation()),
    slugs.map(lambda slug: Relation("about", (slug,))),
    st.lists(slugs, min_size=1, max_size=5).map(
        lambda found: Relation("from", fold_sources(found))
    ),
    short_ids.map(lambda short: Relation("reducing", (short,))),
    short_ids.map(lambda short: Relation("combining", (short,))),
)
versions = st.just(1) | st.integers(1, TURN_MAX)
contributions = st.builds(ContributionName, slugs, counts, types, relations, versions)
folders = st.builds(StageFolder, slugs, short_ids, counts, st.integers(1, STAGES_MAX), words)
extensions = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=10)
places: st.SearchStrategy[Place] = st.one_of(
    st.builds(InitialPrompt, slugs, slugs),
    st.builds(ProjectFile, slugs, st.sampled_from(ProjectFileKind)),
    st.builds(ExportArchive, slugs, slugs),
    st.builds(GeneralResource, slugs, st.sampled_from(ResourceKind), slugs, extensions),
    st.builds(WorkItem, slugs, st.sampled_from(WorkStatus), slugs.map(lambda slug: f"{slug}.md")),
    st.builds(SeedPrompt, folders),
    st.builds(UserFeedback, folders),
    st.builds(ContributionFile, folders, contributions),
    st.builds(Intermediate, folders, contributions),
    st.builds(ChunkFile, folders, contributions, turns),
    st.builds(RawResponse, folders, contributions, st.none() | turns),
    st.builds(ShorteningRecord, folders, short_ids),
    st.builds(StageDocument, folders, contributions, keys),
)
# People name the files in the work folders themselves.
theirs = st.builds(WorkItem, slugs, st.sampled_from(WorkStatus), work_files)


@each_case(("place", "path"), EXAMPLES, ids=[path for _, path in EXAMPLES])
def test_the_layout_is_the_one_the_user_was_promised(place: Place, path: str) -> None:
    assert build_path(place) == path
    assert parse_path(path) == place


@examples(200)
@given(places | theirs)
def test_reading_back_a_path_gives_the_place_it_was_built_from(place: Place) -> None:
    assert parse_path(build_path(place)) == place


@examples(200)
@given(places)
def test_a_path_is_safe_on_every_file_system(place: Place) -> None:
    path = build_path(place)
    assert path.isascii()
    assert len(path) <= PATH_CHARS_MAX
    for part in path.split("/"):
        assert 0 < len(part) <= 255
        assert part.strip(". ") == part
        assert set(part) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.PC")
        assert is_slug(part.partition(".")[0]) or "_" in part or part[0] in "PC"


@examples(200)
@given(places | theirs, st.data())
def test_a_path_that_was_tampered_with_is_refused_or_is_another_path(
    place: Place, data: st.DataObject
) -> None:
    path = build_path(place)
    at = data.draw(st.integers(0, len(path)))
    put = data.draw(
        st.sampled_from(["", "_", "/", "0", "-", ".", "..", "\0", "a", "A", "_1_", "٣"])
    )
    cut = data.draw(st.integers(0, 3))
    changed = path[:at] + put + path[at + cut :]
    assume(changed != path)
    with contextlib.suppress(UsageError):
        other = parse_path(changed)
        assert other != place
        assert build_path(other) == changed


@given(st.text(max_size=200) | st.lists(st.sampled_from(LAYOUT_WORDS), max_size=9).map("/".join))
def test_any_text_is_either_a_path_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert build_path(parse_path(text)) == text


@each_case(
    "path",
    [
        "",
        "/",
        "garden",
        "garden/",
        "/garden/x.md",
        "garden/../x.md",
        "garden/x.exe",
        "garden/CON.md",
        "garden/con.md",
        "garden/general_resource/secrets/x.md",
        "garden/pending/x.md",
        "garden/session_0a1b2c3/iteration_1/1_thesis/seed_prompt.md",
        "garden/session_0a1b2c3d/iteration_0/1_thesis/seed_prompt.md",
        "garden/session_0a1b2c3d/iteration_01/1_thesis/seed_prompt.md",
        "garden/session_0a1b2c3d/iteration_1/thesis/seed_prompt.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/user_feedback_antithesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_thesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_0_thesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_1_thesis_edit_1.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_1_thesis_continuation_1.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_about_x_1_antithesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/m_1_synthesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/_work/m_from_a_or_b_1_x.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/documents/m_1_thesis.md",
        "garden/session_0a1b2c3d/iteration_1/1_thesis/other/m_1_thesis.md",
    ],
)
def test_a_path_outside_the_layout_is_refused_by_name(path: str) -> None:
    with refusing(UsageError, reason="not_a_path") as caught:
        parse_path(path)
    assert repr(path) in caught.value.message


def test_an_endless_path_is_refused_without_repeating_it_all() -> None:
    with refusing(UsageError, reason="path_too_long", limit=1024) as caught:
        parse_path("9" * 1_000_000)
    assert len(caught.value.message) < 2_000


@pytest.mark.parametrize("number", [0, -1, COUNT_MAX + 1])
def test_contributions_and_iterations_are_counted_from_one(number: int) -> None:
    with refusing(UsageError, reason="bad_part", subject="n"):
        ContributionName("m", number, "thesis")
    with refusing(UsageError, reason="bad_part", subject="iteration"):
        StageFolder("garden", "0a1b2c3d", number, 1, "thesis")
    with refusing(UsageError, reason="bad_part", subject="position"):
        StageFolder("garden", "0a1b2c3d", 1, number, "thesis")


@pytest.mark.parametrize("turn", [-1, TURN_MAX + 1])
def test_turns_are_counted_from_zero(turn: int) -> None:
    with refusing(UsageError, reason="bad_part", subject="turn"):
        ChunkFile(THESIS, first_thesis, turn)
    with refusing(UsageError, reason="bad_part", subject="turn"):
        RawResponse(THESIS, first_thesis, turn)


@each_case("stage", ["", "Thesis", "the_sis", "42", "../x", "con", "x" * 41])
def test_a_stage_folder_needs_a_proper_slug(stage: str) -> None:
    with refusing(UsageError, reason="bad_part", subject="stage"):
        StageFolder("garden", "0a1b2c3d", 1, 1, stage)


@each_case("short", ["", "0a1b2c3", "0A1B2C3D", "0a1b2c3d4", "0a1b2c3g", "../../.."])
def test_a_short_id_has_eight_hexadecimal_digits(short: str) -> None:
    with refusing(UsageError, reason="bad_part", subject="session"):
        StageFolder("garden", short, 1, 1, "thesis")
    with refusing(UsageError, reason="bad_part", subject="sources"):
        Relation("reducing", (short,))


@each_case("kind", ["", "Thesis", "thesis_continuation_3", "a__b", "final_synthesis"])
def test_a_type_that_could_be_misread_is_refused(kind: str) -> None:
    with refusing(UsageError, reason="bad_part", subject="contribution_type"):
        ContributionName("m", 1, kind)


@each_case("key", ["", "product-requirements", "Product", "1_a", "a__b", "x" * 41])
def test_a_document_key_is_written_in_words_and_underscores(key: str) -> None:
    with refusing(UsageError, reason="bad_part", subject="document_key"):
        StageDocument(THESIS, first_thesis, key)


@each_case("sources", [(), ("",), ("a_b",), ("x" * 64, "y" * 64)])
def test_sources_are_slugs_that_fit_into_a_name(sources: tuple[str, ...]) -> None:
    with refusing(UsageError, reason="bad_part", subject="sources"):
        Relation("from", sources)


@given(st.lists(slugs, min_size=1, max_size=400))
def test_any_number_of_sources_can_be_folded_into_a_name(found: list[str]) -> None:
    folded = fold_sources(found)
    assert Relation("from", folded).sources == folded
    assert folded[0] == found[0]


def test_different_sources_fold_differently() -> None:
    one, other = (fold_sources([GPT] * 9 + [last]) for last in ("a", "b"))
    assert one != other
    assert one[1].startswith("9-")


def test_the_longest_name_the_rules_allow_fits_a_file_system() -> None:
    longest = ContributionName(
        "m" * SLUG_CHARS_MAX,
        COUNT_MAX,
        "t" * KEY_CHARS_MAX,
        Relation("from", ("s" * 64, "z" * 13)),
        TURN_MAX,
    )
    for place in (
        RawResponse(THESIS, longest, TURN_MAX),
        ChunkFile(THESIS, longest, TURN_MAX),
        ContributionFile(THESIS, longest),
        StageDocument(THESIS, longest, "k" * KEY_CHARS_MAX),
    ):
        assert len(build_path(place).rpartition("/")[2]) <= 254

"""What offline models wrote says so, and a request in another language is noticed."""

from __future__ import annotations

import pytest

from dialectic.core.documents.offline_notice import (
    BY_OFFLINE_MODELS,
    ENGLISH_ONLY,
    is_likely_english,
    is_offline,
    list_notices,
)


@pytest.mark.parametrize(
    "text",
    [
        "A booking service for a village hall that volunteers can run in an hour a week.",
        "Plan a clinic's vaccine stock system for 14 staff and 9,000 patients.",
        "Bee hotel",
        "A café for the Zürich lake, to be opened by May",
        "Design an on-demand bakery app",
        "",
    ],
)
def test_english_is_taken_for_english(text: str) -> None:
    assert is_likely_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ein Fest für das Quartier, das ohne Streit gelingt.",
        "Une fête pour le quartier, sans bruit et avec peu d'argent.",
        "Una fiesta para el barrio con poco dinero.",
        "Een feest voor de buurt met weinig geld.",
        "町の図書館が人びとの居場所になるための計画",
        "План праздника для района",
        "Größeres Gewächshaus",
    ],
)
def test_other_languages_are_not(text: str) -> None:
    assert not is_likely_english(text)


def test_notices_are_for_offline_models_alone() -> None:
    assert is_offline("offline/skeptic")
    assert not is_offline("offliner/skeptic")
    assert not is_offline(None)
    assert list_notices(["acme/a", None], "Ein Fest für das Quartier") == []
    assert list_notices(["acme/a", "offline/skeptic"], "A hall.") == [BY_OFFLINE_MODELS]
    assert list_notices(["offline/skeptic"], "Ein Fest für das Quartier") == [
        BY_OFFLINE_MODELS,
        ENGLISH_ONLY,
    ]

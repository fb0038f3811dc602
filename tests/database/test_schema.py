"""The migrations make the schema that is written down, to the last constraint, index and right."""

from __future__ import annotations

from dialectic.engine import SUPERUSER
from dialectic.postgres import embedded
from tests.database.catalogue import RECORDED, describe_catalogue


async def test_the_migrations_make_the_schema_that_is_recorded(
    server: embedded.Server, bare_template: str
) -> None:
    made = (await describe_catalogue(server.url(user=SUPERUSER, database=bare_template))).split(
        "\n"
    )
    recorded = RECORDED.read_text(encoding="utf-8").split("\n")
    # `python -m tests.database.catalogue` records a change that is wanted.
    assert {
        "lost": sorted(set(recorded) - set(made)),
        "new": sorted(set(made) - set(recorded)),
    } == {
        "lost": [],
        "new": [],
    }
    assert made == recorded

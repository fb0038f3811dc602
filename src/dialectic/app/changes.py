"""Builds change events from the rows that changed, with the parts of the board.

The hub calls it once for all followers of a tenant, in one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pydantic.main import IncEx

from dialectic.app.board import Excerpt, Scene, load_documents, load_scene
from dialectic.app.board_money import build_money, build_needs, collect_facts
from dialectic.app.board_parts import (
    build_documents,
    build_feedback,
    build_jobs,
    build_session,
    build_stages,
)
from dialectic.app.wallet import build_wallet
from dialectic.contract.changes import (
    Changed,
    ChatChanged,
    DocumentChanged,
    FeedbackChanged,
    JobsChanged,
    MoneyChanged,
    ProjectChanged,
    SessionChanged,
)
from dialectic.contract.chats import ChatSummary
from dialectic.contract.projects import ProjectSummary
from dialectic.core.needs import decide_block, decide_needs
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.tables import board, changes
from dialectic.db.tables.changes import ChangedRow
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.events.changes import Change, ChangePage, ChangeSource, Question
from dialectic.ledger import wallets

# More changed rows than this are not told one by one.
ROWS_MAX = 2000
PRIVATE: IncEx = {"document": {"my_rating"}}


def build_source(engine: Engine) -> ChangeSource:
    """Build what a hub reads changes and documents with."""

    async def read(connection: Connection, question: Question) -> ChangePage:
        return await _Reader(engine, connection, question).read()

    async def load(
        connection: Connection, wanted: Mapping[UUID, Sequence[UUID]]
    ) -> dict[UUID, Json]:
        found: dict[UUID, Json] = {}
        for session_id, ids in wanted.items():
            for document in await load_documents(engine, connection, session_id, ids):
                body = document.model_dump(mode="json", by_alias=True, exclude={"my_rating"})
                found |= dict.fromkeys((document.id, document.original_id), body)
        return found

    return ChangeSource(read, load)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what changed for one tenant, on one connection."""

    engine: Engine
    connection: Connection
    question: Question

    async def read(self) -> ChangePage:
        moment = await board.read_moment(self.connection)
        rows = await changes.list_changes(self.connection, self.question.seen, limit=ROWS_MAX + 1)
        if len(rows) > ROWS_MAX:
            return ChangePage(moment, [], is_too_long=True)
        found: list[Change] = []
        for place in _list_places(rows, self.question.told.list_due(self.question.now_s)):
            found += await self._read_session(*place, rows)
        found += await self._read_others(rows)
        return ChangePage(moment, found)

    async def _read_session(
        self, session_id: UUID, iteration: int | None, rows: list[ChangedRow]
    ) -> list[Change]:
        """Build the changes of one iteration of a session; none if it was deleted since."""
        ids: dict[str, dict[UUID, int]] = {}
        for row in rows:
            if row.session_id == session_id and iteration in (None, row.iteration):
                known = ids.setdefault(row.kind, {})
                known[row.id] = min(row.changed_in, known.get(row.id, row.changed_in))
        # All documents, all charges and the forecast take longest: once a second, or if the session
        # changed.
        told = self.question.told
        is_compared = "session" in ids or told.can_tell_money(session_id, self.question.now_s)
        try:
            scene = await load_scene(
                self.engine,
                self.connection,
                self.question.tenant_id,
                session_id,
                iteration,
                only=None if is_compared else Excerpt(ids.get("job", ()), ids.get("document", ())),
                with_plan=False,
            )
        except NotFound:
            return []
        found = list(_list_parts(scene, ids))
        if not is_compared:
            told.owed.add(session_id)
        elif scene.iteration == scene.session["iteration_count"]:
            # Whatever changed last, the session is compared again.
            last = max((max(known.values()) for known in ids.values()), default=0)
            found += [(each, last) for each in self._compare(session_id, scene)]
        return [_wrap(each, since, session_id) for each, since in found]

    def _compare(self, session_id: UUID, scene: Scene) -> Iterable[Changed]:
        """Build what is not as it was told last: the session with its needs, and its money."""
        told, now_s = self.question.told, self.question.now_s
        facts = collect_facts(scene)
        needs = decide_needs(facts)
        shown = SessionChanged(
            session=build_session(scene, decide_block(facts, needs)),
            needs=build_needs(scene, needs),
            money=build_money(scene),
        )
        state = shown.model_dump_json(exclude={"money": True, "session": {"updated_at"}})
        money = shown.money.model_dump_json()
        if told.states.get(session_id) != state:
            told.states[session_id] = state
            yield shown
        elif told.money.get(session_id) != money:
            if not told.can_tell_money(session_id, now_s):
                told.owed.add(session_id)
                return
            yield MoneyChanged(session_id=session_id, money=shown.money)
        told.money[session_id] = money
        told.money_at_s[session_id] = now_s
        told.owed.discard(session_id)

    async def _read_others(self, rows: list[ChangedRow]) -> list[Change]:
        """Build the changes of projects, chats, wallets and what is gone."""
        ids = {
            kind: {row.id: row.changed_in for row in rows if row.kind == kind}
            for kind in ("project", "chat")
        }
        found: list[Change] = []
        if ids["project"]:
            for row in await changes.list_projects(self.connection, list(ids["project"])):
                project = ProjectSummary.model_validate(row)
                told = ProjectChanged(project_id=project.id, project=project)
                found.append(_wrap(told, ids["project"][project.id]))
        if ids["chat"]:
            for row in await changes.list_chats(self.connection, list(ids["chat"])):
                chat = ChatSummary.model_validate(row)
                found.append(_wrap(ChatChanged(chat_id=chat.id, chat=chat), ids["chat"][chat.id]))
        for changed in rows:
            if changed.kind == "wallet":
                wallet = await wallets.load_wallet(self.connection, changed.id)
                paid = MoneyChanged(wallet=build_wallet(wallet))
                found.append(_wrap(paid, changed.changed_in, user_id=changed.user_id))
            elif (gone := _build_gone(changed)) is not None:
                found.append(_wrap(gone, changed.changed_in, changed.session_id))
        return found


def _list_parts(
    scene: Scene, ids: Mapping[str, Mapping[UUID, int]]
) -> Iterable[tuple[Changed, int]]:
    """List the parts of a session that changed, each with the first transaction that it tells."""
    session_id: UUID = scene.session["id"]
    if jobs := ids.get("job"):
        shown, stages = build_jobs(scene, only=jobs.keys()), build_stages(scene)
        yield JobsChanged(session_id=session_id, jobs=shown, stages=stages), min(jobs.values())
    documents = ids.get("document", {})
    for document in build_documents(scene, only=documents.keys()):
        since = documents[document.original_id]
        yield DocumentChanged(session_id=session_id, document=document), since
    feedback = ids.get("feedback", {})
    for said in build_feedback(scene, only=feedback.keys()):
        changed = FeedbackChanged(session_id=session_id, feedback_id=said.id, feedback=said)
        yield changed, feedback[said.id]


def _build_gone(row: ChangedRow) -> Changed | None:
    """Build what tells that something was deleted; None if the row was not."""
    match row.kind:
        case "gone_project":
            return ProjectChanged(project_id=row.id, project=None, is_gone=True)
        case "gone_chat":
            return ChatChanged(chat_id=row.id, chat=None, is_gone=True)
        case "gone_feedback":
            return FeedbackChanged(
                session_id=row.session_id, feedback_id=row.id, feedback=None, is_gone=True
            )
        case _:
            return None


def _list_places(rows: Iterable[ChangedRow], due: Iterable[UUID]) -> list[tuple[UUID, int | None]]:
    """List the iterations with changes, and the sessions whose money is due."""
    places: dict[tuple[UUID, int | None], None] = {}
    for row in rows:
        if row.session_id is not None and row.iteration is not None:
            places[(row.session_id, row.iteration)] = None
    touched = {session_id for session_id, _ in places}
    places |= {(session_id, None): None for session_id in due if session_id not in touched}
    return list(places)


def _wrap(
    data: Changed, since: int, session_id: UUID | None = None, user_id: UUID | None = None
) -> Change:
    """Build the event, without what differs from user to user: it is the same for all."""
    body = data.model_dump(mode="json", by_alias=True, exclude=PRIVATE)
    return Change(data.type, session_id, user_id, body, since)

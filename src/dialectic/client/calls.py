"""One request for each thing that the API does, built and not sent. Pure.

Whoever sends a call knows the server; a call knows its path, what it carries, how its answer is
read, and whether it may be sent again when nobody knows what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel

from dialectic.client import models
from dialectic.client.models import Page, Quoted, Session

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
PREFIX = "/api/v1"
LIMIT_MAX = 200
# What a model may take for its answer, with all its turns.
CHAT_TIMEOUT_S = 1800.0
# What a server may take before it has a whole project in one file, or out of one.
TRANSFER_TIMEOUT_S = 600.0
Noun = Literal["project", "session", "contribution", "chunk", "chat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how to read the answer to it."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    # The name under which it is done once, however often it is sent; "" until it is given one.
    key: str | None = None
    timeout_s: float | None = None

    @property
    def can_repeat(self) -> bool:
        """Whether it may be sent again although it may have been carried out."""
        return self.method == "GET" or self.key is not None


def build_query(**wishes: object) -> dict[str, str]:
    """Write a query as the API reads it; what is None is not said."""
    shown = {name: value for name, value in wishes.items() if value is not None}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in shown.items()
    }


def _drop_none(wishes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wishes.items() if value is not None}


def _ignore(_body: bytes) -> None:
    return None


def get(path: str, kind: type[M], /, **query: object) -> Call[M]:
    """Build a request that changes nothing."""
    return Call(method="GET", path=path, read=kind.model_validate_json, query=build_query(**query))


def get_bytes(path: str, /, **query: object) -> Call[bytes]:
    """Build a request for something that is no JSON."""
    return Call(method="GET", path=path, read=bytes, query=build_query(**query))


def act(
    path: str, kind: type[M], body: Any = None, *, key: str | None = None, method: str = "POST"
) -> Call[M]:
    """Build a request that changes something, once."""
    return Call(method=method, path=path, read=kind.model_validate_json, body=body, key=key or "")


# -- projects -------------------------------------------------------------------------------------


def create_project(
    prompt: str,
    *,
    name: str = "",
    domain: str = "General",
    resources: Sequence[Mapping[str, str]] = (),
    key: str | None = None,
) -> Call[models.Project]:
    """Make a project of a prompt. A resource has `kind`, `name` and `text`."""
    given = [dict(resource) for resource in resources]
    body = {"prompt": prompt, "name": name, "domain": domain, "resources": given}
    return act("/projects", models.Project, body, key=key)


def list_projects() -> Call[Page[models.ProjectLine]]:
    """List projects, the newest first."""
    return get("/projects", Page[models.ProjectLine])


def get_project(project_id: UUID) -> Call[models.Project]:
    """Look at a project and its prompt."""
    return get(f"/projects/{project_id}", models.Project)


def change_project(
    project_id: UUID, *, name: str | None = None, is_archived: bool | None = None
) -> Call[models.Project]:
    """Rename a project, put it away, or take it out again."""
    body = _drop_none({"name": name, "is_archived": is_archived})
    return act(f"/projects/{project_id}", models.Project, body, method="PATCH")


def delete_project(project_id: UUID) -> Call[None]:
    """Delete a project with everything in it."""
    return Call(method="DELETE", path=f"/projects/{project_id}", read=_ignore)


def add_resource(
    project_id: UUID, *, kind: str, name: str, text: str, key: str | None = None
) -> Call[models.Resource]:
    """Give a project a text beside its prompt."""
    body = {"kind": kind, "name": name, "text": text}
    return act(f"/projects/{project_id}/resources", models.Resource, body, key=key)


def list_resources(project_id: UUID) -> Call[Page[models.Resource]]:
    """List what was given to a project."""
    return get(f"/projects/{project_id}/resources", Page[models.Resource])


def list_files(project_id: UUID) -> Call[Page[models.FileLine]]:
    """List the files of a project."""
    return get(f"/projects/{project_id}/files", Page[models.FileLine])


def read_file(project_id: UUID, path: str) -> Call[bytes]:
    """Read one file of a project."""
    return get_bytes(f"/projects/{project_id}/file", path=path)


def search_project(project_id: UUID, query: str, *, limit: int = 10) -> Call[models.Search]:
    """Find passages in all documents of a project, the best first."""
    return get(f"/projects/{project_id}/search", models.Search, q=query, limit=limit)


def find(kind: Noun, text: str) -> Call[models.FoundId]:
    """Find what the beginning of an id stands for; a project also by folder or name."""
    return get("/find", models.FoundId, kind=kind, text=text)


# -- sessions -------------------------------------------------------------------------------------


def _build_session_wish(  # noqa: PLR0913  what a session can be begun with
    *,
    models: Sequence[str] | None,
    process: str,
    until: str | None,
    lead: str | None,
    is_autopilot: bool,
    continue_until_complete: bool,
    max_output_tokens: int | None,
    budget: str | None,
    shrink: int,
) -> dict[str, Any]:
    wish = {
        "models": None if models is None else list(models),
        "process": process,
        "until": until,
        "lead": lead,
        "is_autopilot": is_autopilot,
        "continue_until_complete": continue_until_complete,
        "max_output_tokens": max_output_tokens,
        "budget": budget,
        "shrink": shrink,
    }
    return _drop_none(wish)


def create_session(  # noqa: PLR0913  what a session can be begun with
    project_id: UUID,
    *,
    models: Sequence[str] | None = None,
    process: str = "standard",
    until: str | None = None,
    lead: str | None = None,
    is_autopilot: bool = True,
    continue_until_complete: bool = True,
    max_output_tokens: int | None = None,
    budget: str | None = None,
    shrink: int = 0,
    key: str | None = None,
) -> Call[Session]:
    """Give a project a session; without models, with those that the server takes by default."""
    body = _build_session_wish(
        models=models,
        process=process,
        until=until,
        lead=lead,
        is_autopilot=is_autopilot,
        continue_until_complete=continue_until_complete,
        max_output_tokens=max_output_tokens,
        budget=budget,
        shrink=shrink,
    )
    return act(f"/projects/{project_id}/sessions", Session, body, key=key)


def quote_run(  # noqa: PLR0913  the same, and what the project would be
    prompt: str,
    *,
    domain: str = "General",
    resources: Sequence[Mapping[str, str]] = (),
    models: Sequence[str] | None = None,
    process: str = "standard",
    until: str | None = None,
    lead: str | None = None,
    is_autopilot: bool = True,
    continue_until_complete: bool = True,
    max_output_tokens: int | None = None,
    budget: str | None = None,
    shrink: int = 0,
    lists_smaller: bool = False,
) -> Call[Quoted]:
    """Say what a run would cost. Makes nothing and asks no model."""
    wish = _build_session_wish(
        models=models,
        process=process,
        until=until,
        lead=lead,
        is_autopilot=is_autopilot,
        continue_until_complete=continue_until_complete,
        max_output_tokens=max_output_tokens,
        budget=budget,
        shrink=shrink,
    )
    given = [dict(resource) for resource in resources]
    project = {"prompt": prompt, "domain": domain, "resources": given}
    body = {**project, **wish, "lists_smaller": lists_smaller}
    return act("/quotes", Quoted, body)


def list_sessions(project_id: UUID | None = None) -> Call[Page[models.SessionLine]]:
    """List sessions, of a project or all, the newest first."""
    path = "/sessions" if project_id is None else f"/projects/{project_id}/sessions"
    return get(path, Page[models.SessionLine])


def get_session(session_id: UUID) -> Call[models.Session]:
    """Look at a session and how far its stages are."""
    return get(f"/sessions/{session_id}", models.Session)


def change_session(session_id: UUID, **changes: Any) -> Call[models.Session]:
    """Change `models`, `budget` (None for no limit), `continue_until_complete` or
    `max_output_tokens`; what is absent stays."""
    return act(f"/sessions/{session_id}", models.Session, changes, method="PATCH")


def quote_session(session_id: UUID) -> Call[models.Quote]:
    """Say what is left of a session, and what it is expected to cost."""
    return get(f"/sessions/{session_id}/quote", models.Quote)


def look(
    session_id: UUID, *, quote: bool = False, after: int | None = None
) -> Call[models.Overview]:
    """Look at everything about a session at once; `after` asks whether an event followed it."""
    path = f"/sessions/{session_id}/overview"
    return get(path, models.Overview, quote=quote or None, after=after)


def list_costs(session_id: UUID) -> Call[Page[models.Cost]]:
    """Say what a session has cost so far."""
    return get(f"/sessions/{session_id}/costs", Page[models.Cost])


def list_jobs(session_id: UUID) -> Call[Page[models.Job]]:
    """List a session's jobs, the oldest first."""
    return get(f"/sessions/{session_id}/jobs", Page[models.Job])


def list_contributions(
    session_id: UUID, *, stage: str | None = None
) -> Call[Page[models.ContributionLine]]:
    """List a session's contributions in their newest versions."""
    path = f"/sessions/{session_id}/contributions"
    return get(path, Page[models.ContributionLine], stage=stage)


def list_documents(session_id: UUID) -> Call[Page[models.Resource]]:
    """List what stands beside a session's contributions."""
    return get(f"/sessions/{session_id}/documents", Page[models.Resource])


# -- acting ---------------------------------------------------------------------------------------


def generate(session_id: UUID, *, key: str | None = None) -> Call[models.Jobs]:
    """Start the stage that is due."""
    return act(f"/sessions/{session_id}/generate", models.Jobs, key=key)


def submit(
    session_id: UUID,
    *,
    feedback: str = "",
    responses: Sequence[Mapping[str, Any]] = (),
    key: str | None = None,
) -> Call[models.Session]:
    """Submit what you say about the stage that is complete, and start the next one."""
    body = {"feedback": feedback, "responses": [dict(response) for response in responses]}
    return act(f"/sessions/{session_id}/submit", models.Session, body, key=key)


def pause(session_id: UUID, *, key: str | None = None) -> Call[models.Session]:
    """Start nothing more; what runs finishes its turn."""
    return act(f"/sessions/{session_id}/pause", models.Session, key=key)


def resume(
    session_id: UUID,
    *,
    approve_spend: bool = False,
    budget: str | None = None,
    key: str | None = None,
) -> Call[models.Session]:
    """Let everything go on that is paused."""
    body = _drop_none({"approve_spend": approve_spend, "budget": budget})
    return act(f"/sessions/{session_id}/resume", models.Session, body, key=key)


def cancel(session_id: UUID, *, key: str | None = None) -> Call[models.Session]:
    """End a session for good; what is written stays."""
    return act(f"/sessions/{session_id}/cancel", models.Session, key=key)


def retry(session_id: UUID, *, key: str | None = None) -> Call[models.Session]:
    """Run again what failed."""
    return act(f"/sessions/{session_id}/retry", models.Session, key=key)


def iterate(session_id: UUID, *, key: str | None = None) -> Call[models.Session]:
    """Run the process once more."""
    return act(f"/sessions/{session_id}/iterate", models.Session, key=key)


def give_feedback(
    session_id: UUID,
    stage: str,
    text: str,
    *,
    contribution_id: UUID | None = None,
    key: str | None = None,
) -> Call[models.Kept]:
    """Say something about a stage, or about one of its contributions."""
    about = None if contribution_id is None else str(contribution_id)
    body = _drop_none({"stage": stage, "text": text, "contribution_id": about})
    return act(f"/sessions/{session_id}/feedback", models.Kept, body, key=key)


# -- contributions --------------------------------------------------------------------------------


def get_contribution(contribution_id: UUID) -> Call[models.Contribution]:
    """Read one version of a contribution."""
    return get(f"/contributions/{contribution_id}", models.Contribution)


def get_record(contribution_id: UUID) -> Call[models.Record]:
    """Read a contribution with all that is known of it, its turns too."""
    return get(f"/contributions/{contribution_id}/record", models.Record)


def get_chunk(chunk_id: UUID) -> Call[models.Record]:
    """Read one turn of a contribution."""
    return get(f"/chunks/{chunk_id}", models.Record)


def list_versions(contribution_id: UUID) -> Call[Page[models.Version]]:
    """List all versions of a contribution, the first one first."""
    return get(f"/contributions/{contribution_id}/versions", Page[models.Version])


def edit(
    contribution_id: UUID, content: str, *, etag: str | None = None, key: str | None = None
) -> Call[models.Contribution]:
    """Put your version in the place of a contribution; with an ETag only if it is still that."""
    path, kind = f"/contributions/{contribution_id}", models.Contribution
    return Call(
        method="PUT",
        path=path,
        read=kind.model_validate_json,
        headers={} if etag is None else {"If-Match": etag},
        body={"content": content},
        key=key or "",
    )


def regenerate(contribution_id: UUID, *, key: str | None = None) -> Call[models.Jobs]:
    """Let the same model write a contribution anew."""
    return act(f"/contributions/{contribution_id}/regenerate", models.Jobs, key=key)


def rate(contribution_id: UUID, rating: int, *, key: str | None = None) -> Call[models.Kept]:
    """Rate a contribution from 1 to 5."""
    path, body = f"/contributions/{contribution_id}/rating", {"rating": rating}
    return act(path, models.Kept, body, key=key)


def get_document(document_id: UUID) -> Call[models.Document]:
    """Read a document or a resource."""
    return get(f"/documents/{document_id}", models.Document)


# -- chat -----------------------------------------------------------------------------------------


def ask(  # noqa: PLR0913  what a question can say
    message: str,
    model: str,
    *,
    chat_id: UUID | None = None,
    system_instruction: str = "",
    continue_until_complete: bool = False,
    max_output_tokens: int | None = None,
    rewind_from_message_id: UUID | None = None,
    stream: bool = False,
    key: str | None = None,
) -> Call[models.Reply]:
    """Ask one model."""
    body = {
        "message": message,
        "model": model,
        "chat_id": None if chat_id is None else str(chat_id),
        "systemInstruction": system_instruction,
        "continue_until_complete": continue_until_complete,
        "max_output_tokens": max_output_tokens,
        "rewind_from_message_id": rewind_from_message_id and str(rewind_from_message_id),
        "stream": stream,
    }
    return Call(
        method="POST",
        path="/chat",
        read=models.Reply.model_validate_json,
        body=_drop_none(body),
        key=key or "",
        timeout_s=CHAT_TIMEOUT_S,
    )


def list_chats() -> Call[Page[models.ChatLine]]:
    """List chats, the newest first."""
    return get("/chats", Page[models.ChatLine])


def get_chat(chat_id: UUID) -> Call[models.Chat]:
    """Read a chat."""
    return get(f"/chats/{chat_id}", models.Chat)


def delete_chat(chat_id: UUID) -> Call[None]:
    """Delete a chat."""
    return Call(method="DELETE", path=f"/chats/{chat_id}", read=_ignore)


def rewind_chat(chat_id: UUID, message_id: UUID, *, key: str | None = None) -> Call[models.Chat]:
    """Take a message and all that followed it out of the thread."""
    body = {"message_id": str(message_id)}
    return act(f"/chats/{chat_id}/rewind", models.Chat, body, key=key)


def make_project_of_chat(
    chat_id: UUID, *, name: str = "", domain: str = "General", key: str | None = None
) -> Call[models.Project]:
    """Make a project whose prompt is what was said in a chat."""
    body = {"name": name, "domain": domain}
    return act(f"/chats/{chat_id}/project", models.Project, body, key=key)


# -- the account ----------------------------------------------------------------------------------


def get_me() -> Call[models.Me]:
    """Say who you are there, and what your token allows."""
    return get("/me", models.Me)


def get_wallet() -> Call[models.Wallet]:
    """Say what your wallet holds."""
    return get("/wallet", models.Wallet)


def list_transactions() -> Call[Page[models.Transaction]]:
    """List what happened to your wallet, the newest first."""
    return get("/wallet/transactions", Page[models.Transaction])


def list_models() -> Call[Page[models.Model]]:
    """List the models that are known there."""
    return get("/models", Page[models.Model])


def list_processes() -> Call[Page[models.ProcessLine]]:
    """List the processes that sessions can follow."""
    return get("/processes", Page[models.ProcessLine])


def get_process(name: str) -> Call[models.Process]:
    """Look at a process: its stages, steps and prompts."""
    return get(f"/processes/{name}", models.Process)


def list_notifications(*, unread: bool = False) -> Call[Page[models.Notification]]:
    """List the messages to you, the newest first."""
    return get("/notifications", Page[models.Notification], unread=unread or None)


def mark_read(notification_id: int) -> Call[None]:
    """Note that you have read a message; a second time changes nothing."""
    path = f"/notifications/{notification_id}/read"
    return Call(method="POST", path=path, read=_ignore, key="")


# -- what lasts -----------------------------------------------------------------------------------


def follow_events(*, after: str | None, session_id: UUID | None) -> Call[bytes]:
    """Follow everything that happens, from the last event that was seen on."""
    call = get_bytes("/events", session=session_id)
    return replace(call, headers={} if after is None else {"Last-Event-ID": after})


def export_project(project_id: UUID, *, finished: bool = False) -> Call[bytes]:
    """Take a project away as one zip file."""
    call = get_bytes(f"/projects/{project_id}/export", finished=finished or None)
    return replace(call, timeout_s=TRANSFER_TIMEOUT_S)


def import_project(*, key: str | None = None) -> Call[models.Imported]:
    """Take a project in from a zip file, which whoever sends this has at hand."""
    call = act("/projects/import", models.Imported, key=key)
    return replace(call, timeout_s=TRANSFER_TIMEOUT_S)

"""Calls for the account: wallet, models, processes, notifications, events and chats. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from dialectic.client.call import Call, act, fill, get, get_bytes, ignore_body
from dialectic.contract.accounts import (
    Me,
    Preferences,
    PreferencesChange,
    Spending,
    TopUpRequest,
    Transaction,
    Wallet,
    WalletChange,
)
from dialectic.contract.base import Page
from dialectic.contract.chats import (
    BranchRequest,
    Chat,
    ChatEstimate,
    ChatProjectRequest,
    ChatReply,
    ChatRequest,
    ChatSummary,
    RewindRequest,
    SystemPrompt,
)
from dialectic.contract.endpoints import (
    EndpointRequest,
    EndpointTest,
    EndpointTestRequest,
    OwnEndpoint,
)
from dialectic.contract.models import (
    Model,
    ModelTest,
    ProcessDetail,
    ProcessOutline,
    ProcessSummary,
)
from dialectic.contract.notifications import (
    Notification,
    NotificationPage,
    ReadRequest,
    ReadResult,
)
from dialectic.contract.projects import Project

# Timeout for a reply, including all its turns.
CHAT_TIMEOUT_S = 1800.0
# Timeout for the test of an endpoint, which the server ends after a minute.
TEST_TIMEOUT_S = 90.0


def get_me() -> Call[Me]:
    """Show your user, your tenant and the scopes of your token."""
    return get("/me", Me)


def change_preferences(change: PreferencesChange, *, key: str | None = None) -> Call[Preferences]:
    """Change how you want the pages; absent fields stay, and null restores a default."""
    return act("/me/preferences", Preferences, change, key=key, method="PATCH")


def get_wallet() -> Call[Wallet]:
    """Show your wallet's balance."""
    return get("/wallet", Wallet)


def top_up_wallet(
    amount: str, *, is_play: bool = False, note: str = "", key: str | None = None
) -> Call[Wallet]:
    """Add money to your wallet."""
    body = fill(TopUpRequest, amount=amount, is_play=is_play, note=note)
    return act("/wallet/topups", Wallet, body, key=key)


def change_wallet(
    *, is_count_only: bool | None = None, limit: str | None = None, key: str | None = None
) -> Call[Wallet]:
    """Change what limits your wallet."""
    body = fill(WalletChange, is_count_only=is_count_only, limit=limit)
    return act("/wallet", Wallet, body, key=key, method="PATCH")


def list_transactions() -> Call[Page[Transaction]]:
    """List your wallet's transactions, newest first."""
    return get("/wallet/transactions", Page[Transaction])


def list_spending(days: int = 30) -> Call[Page[Spending]]:
    """List what your wallet paid in the latest days, by day and model."""
    return get("/wallet/spending", Page[Spending], days=days)


def list_models() -> Call[Page[Model]]:
    """List the models that the server knows."""
    return get("/models", Page[Model])


def add_endpoint(request: EndpointRequest, *, key: str | None = None) -> Call[OwnEndpoint]:
    """Add an endpoint that only your account can use."""
    return act("/endpoints", OwnEndpoint, request, key=key)


def list_endpoints() -> Call[Page[OwnEndpoint]]:
    """List your account's own endpoints, without their keys."""
    return get("/endpoints", Page[OwnEndpoint])


def try_endpoint(name: str, *, model: str | None = None) -> Call[EndpointTest]:
    """Test an endpoint with a short real call."""
    body = fill(EndpointTestRequest, model=model)
    path = f"/endpoints/{name}/test"
    return replace(act(path, EndpointTest, body, timeout_s=TEST_TIMEOUT_S), key=None)


def remove_endpoint(name: str) -> Call[None]:
    """Remove an endpoint and its key."""
    return Call(method="DELETE", path=f"/endpoints/{name}", read=ignore_body)


def try_model(name: str) -> Call[ModelTest]:
    """Ask a model one short question, to see that it answers."""
    return Call(
        method="POST",
        path=f"/models/{name}/test",
        read=ModelTest.model_validate_json,
        timeout_s=TEST_TIMEOUT_S,
    )


def outline_process(name: str, *, seats: int = 3) -> Call[ProcessOutline]:
    """Show what a process does with a number of seats."""
    return get(f"/processes/{name}/outline", ProcessOutline, seats=seats)


def list_processes() -> Call[Page[ProcessSummary]]:
    """List the processes that a session can run."""
    return get("/processes", Page[ProcessSummary])


def get_process(name: str) -> Call[ProcessDetail]:
    """Show a process: its stages, steps and prompts."""
    return get(f"/processes/{name}", ProcessDetail)


def list_system_prompts() -> Call[Page[SystemPrompt]]:
    """List the system prompts that a chat can use."""
    return get("/system-prompts", Page[SystemPrompt])


def list_notifications(*, unread: bool = False) -> Call[Page[Notification]]:
    """List the messages to you, newest first."""
    return get("/notifications", Page[Notification], unread=unread or None)


def get_notifications(*, unread: bool = False, limit: int | None = None) -> Call[NotificationPage]:
    """Show the newest messages to you, and how many are unread."""
    return get("/notifications", NotificationPage, unread=unread or None, limit=limit)


def mark_read(notification_id: int) -> Call[None]:
    """Mark a message as read. Repeating it changes nothing."""
    path = f"/notifications/{notification_id}/read"
    return Call(method="POST", path=path, read=ignore_body, key="")


def mark_all_read(
    *, up_to: int | None = None, session_id: UUID | None = None, key: str | None = None
) -> Call[ReadResult]:
    """Mark messages to you as read: up to one, about one session, or all."""
    body = fill(ReadRequest, up_to=up_to, session_id=session_id)
    return act("/notifications/read", ReadResult, body, key=key)


def follow_events(
    *, after: str | None, session_id: UUID | None, drafts_of: Sequence[UUID] = ()
) -> Call[bytes]:
    """Stream events, starting after the last one received."""
    call = get_bytes("/events", session=session_id, drafts=list(drafts_of) or None)
    return replace(call, headers={} if after is None else {"Last-Event-ID": after})


# -- chats --------------------------------------------------------------------------------------


def ask(  # noqa: PLR0913  what a question can say
    message: str,
    model: str,
    *,
    chat_id: UUID | None = None,
    system_instruction: str = "",
    system_prompt_id: UUID | None = None,
    continue_until_complete: bool = False,
    max_output_tokens: int | None = None,
    rewind_from_message_id: UUID | None = None,
    stream: bool = False,
    key: str | None = None,
) -> Call[ChatReply]:
    """Send a message to one model."""
    body = fill(
        ChatRequest,
        message=message,
        model=model,
        chat_id=chat_id,
        system_instruction=system_instruction,
        system_prompt_id=system_prompt_id,
        continue_until_complete=continue_until_complete,
        max_output_tokens=max_output_tokens,
        rewind_from_message_id=rewind_from_message_id,
        stream=stream,
    )
    return act("/chat", ChatReply, body, key=key, timeout_s=CHAT_TIMEOUT_S)


def list_chats() -> Call[Page[ChatSummary]]:
    """List your chats, newest first."""
    return get("/chats", Page[ChatSummary])


def get_chat(chat_id: UUID) -> Call[Chat]:
    """Show a chat and its messages."""
    return get(f"/chats/{chat_id}", Chat)


def delete_chat(chat_id: UUID) -> Call[None]:
    """Delete a chat."""
    return Call(method="DELETE", path=f"/chats/{chat_id}", read=ignore_body)


def estimate_message(message: str, model: str, **options: object) -> Call[ChatEstimate]:
    """Ask what a message is expected to cost."""
    return act(
        "/chat/estimate", ChatEstimate, fill(ChatRequest, message=message, model=model, **options)
    )


def stop_answer(chat_id: UUID) -> Call[None]:
    """Stop the answer that is being written in a chat."""
    return Call(method="POST", path=f"/chats/{chat_id}/stop", read=ignore_body)


def switch_branch(chat_id: UUID, message_id: UUID, *, key: str | None = None) -> Call[Chat]:
    """Go on with another branch of a chat."""
    body = fill(BranchRequest, message_id=message_id)
    return act(f"/chats/{chat_id}/branch", Chat, body, key=key)


def rewind_chat(chat_id: UUID, message_id: UUID, *, key: str | None = None) -> Call[Chat]:
    """Remove a message and all later ones from the thread."""
    body = fill(RewindRequest, message_id=message_id)
    return act(f"/chats/{chat_id}/rewind", Chat, body, key=key)


def make_project_of_chat(
    chat_id: UUID, *, name: str = "", domain: str = "General", key: str | None = None
) -> Call[Project]:
    """Create a project whose prompt is the text of a chat."""
    body = fill(ChatProjectRequest, name=name, domain=domain)
    return act(f"/chats/{chat_id}/project", Project, body, key=key)

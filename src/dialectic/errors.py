"""The tree of errors: what went wrong, and what becomes of the work that met it.

DialecticError                code, HTTP status, exit code, fate
├── UsageError                the caller asked for something that does not exist or is not allowed
│   ├── Unauthenticated       nobody knows who asks
│   │   ├── TokenMissing
│   │   ├── TokenInvalid      no token, or one that was revoked: nobody is told which
│   │   └── TokenExpired
│   ├── Forbidden             it is known who asks, and they may not
│   ├── NotFound
│   ├── TooLarge              a text or a body is longer than is allowed
│   ├── InvalidValue          a value cannot be stored
│   ├── InvalidCursor         a list was asked to go on from where it has never been
│   ├── UnknownModel          the model is not in the catalogue
│   ├── Conflict
│   │   ├── IllegalMove       a job was asked to make a move the table of moves does not know
│   │   └── InProgress        the same request is being answered at this moment
│   ├── PreconditionFailed    what was to be changed is not as the caller has seen it
│   ├── KeyReused             an Idempotency-Key came again with another request
│   ├── ForbiddenAddress      an address that may not be called for a tenant
│   ├── InvalidProcess        a process file breaks a rule
│   ├── TooManyStreams        one tenant follows events in too many places at once
│   ├── TooManyUploads        one tenant sends too many files at once
│   ├── InvalidBundle         an archive is no export of a project, or not one that can be taken in
│   └── InvalidUpload         a file that was given has no text that can be read
│       └── UploadTooLarge    or more of it than is taken
├── ConfigurationError        settings, files or servers that the operator must put right
│   ├── KeyMissing            the key of a model's endpoint is not set here: the work waits for it
│   ├── DatabaseUnreachable
│   ├── DatabaseFull          its disk or memory is used up: the work waits for room
│   ├── SchemaChanged         another version has upgraded the database under this one
│   ├── SchemaOutdated        the database was made by a version that this one cannot upgrade
│   ├── EmbeddedServerError
│   ├── ServerUnreachable     the server that a client was pointed at does not answer
│   ├── StorageMismatch       the documents of this database are kept elsewhere
│   └── StorageUnavailable
├── TooManyRequests           more requests than a token may make
├── ServerBusy                the server takes in as many files as it can
├── DatabaseBusy              the database said no just now: tried again
├── EndpointBusy              the limits of an endpoint allow no call yet: the job comes back later
│   ├── CircuitOpen           an endpoint fails so often that nobody may call it but a probe
│   └── TextBusy              another job is making the shorter text that this one needs
├── FundsError                the wallet or the budget says no
│   └── SpendNeedsApproval    there is enough, but one call would take too large a share of it
├── ContextWindowError        nothing is left to compress and the prompt still does not fit
├── ProviderError             the model's side failed; fate by the taxonomy of the leaf
│   ├── ProviderTransient · ProviderThrottled · ProviderMalformed · StreamTruncated      retry
│   ├── ProviderQuota                                                                   pause
│   └── ProviderAuth · ProviderRejected · ProviderFiltered                              fail
├── InvalidPayload            a job's payload does not parse: that job fails, no other
├── PlanError                 a planner found nothing to do, or far too much
├── ApiError                  a server answered with something that its client does not know
│   └── ApiRefusal            and it is for the caller to change something
└── LeaseLost                 another worker has the job: write nothing, say nothing

A message says what was wrong, where, and why. It names no command: what helps is the `remedy`,
which the command line shows as a command and the API as a field. Programs and tests go by `code`,
`reason`, `subject` and `limit`, never by the words. Messages never hold keys or document text.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypedDict, Unpack


class Fate(enum.Enum):
    """What becomes of a job whose work raised an error."""

    RETRY = "retry"
    PAUSE = "pause"
    FAIL = "fail"
    DROP = "drop"


class ExitCode(enum.IntEnum):
    """What the command line says to the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    CONFIGURATION = 4
    FUNDS = 5
    INTERRUPTED = 130


class RemedyAction(enum.StrEnum):
    """What helps against an error. Clients meet these words: one is added, none is changed."""

    TRY_AGAIN = "try_again"  # send the same request later
    # A session: go on with it.
    RESUME = "resume"
    APPROVE_SPEND = "approve_spend"
    RAISE_BUDGET = "raise_budget"
    RETRY = "retry"  # run the failed jobs again
    ITERATE = "iterate"
    WATCH = "watch"
    START_SESSION = "start_session"
    # Money.
    TOP_UP = "top_up"
    SHOW_COSTS = "show_costs"
    # Look up the right name.
    QUOTE_RUN = "quote_run"
    CHOOSE_MODEL = "choose_model"
    LIST_SESSIONS = "list_sessions"
    LIST_CONTRIBUTIONS = "list_contributions"
    LIST_JOBS = "list_jobs"
    LIST_CHATS = "list_chats"
    LIST_USERS = "list_users"
    LIST_TOKENS = "list_tokens"
    LIST_ORGANIZATIONS = "list_organizations"
    # For the operator.
    CREATE_TOKEN = "create_token"  # noqa: S105  not a secret
    ADD_USER = "add_user"
    CONFIGURE = "configure"
    CHECK_SETUP = "check_setup"
    MIGRATE_DATABASE = "migrate_database"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps against an error, for programs: an action and what it needs to know."""

    action: RemedyAction
    session_id: str | None = None
    model: str | None = None
    scope: str | None = None
    user: str | None = None
    setting: str | None = None
    is_play: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Write it as JSON: the action, and the parameters that are set."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def for_session(self, session_id: object) -> Remedy:
        """Fill in the session, if this is about one and does not name it yet."""
        if self.action not in ABOUT_A_SESSION or self.session_id is not None:
            return self
        return replace(self, session_id=str(session_id))


ABOUT_A_SESSION = frozenset(
    {
        RemedyAction.RESUME,
        RemedyAction.APPROVE_SPEND,
        RemedyAction.RAISE_BUDGET,
        RemedyAction.RETRY,
        RemedyAction.ITERATE,
        RemedyAction.WATCH,
        RemedyAction.SHOW_COSTS,
        RemedyAction.LIST_CONTRIBUTIONS,
        RemedyAction.LIST_JOBS,
    }
)


def read_remedy(told: object) -> Remedy | None:
    """Read a remedy from JSON; None if it is missing, or one that a newer version has added."""
    if not isinstance(told, Mapping):
        return None
    known: dict[str, Any] = {name: told.get(name) for name in Remedy.__dataclass_fields__}
    if known["action"] not in set(RemedyAction):
        return None
    known["action"] = RemedyAction(known["action"])
    return Remedy(**known)


class Facts(TypedDict, total=False):
    """What every error can say of itself to programs."""

    remedy: Remedy | None
    reason: str | None
    subject: str | None
    limit: int | None


class DialecticError(Exception):
    """Something this program knows the meaning of."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    fate: ClassVar[Fate] = Fate.FAIL
    # What helps, unless an error says otherwise.
    remedy: Remedy | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        remedy: Remedy | None = None,
        reason: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message or self.__doc__)
        if remedy is not None:
            self.remedy = remedy
        # Which case of its code this is: a word that stays when the message is reworded.
        self.reason = reason
        # What it is about: a field, an option, a setting, a file, an id.
        self.subject = subject
        # The most that would have been accepted.
        self.limit = limit

    @property
    def message(self) -> str:
        return str(self.args[0])


class UsageError(DialecticError):
    """The request cannot be carried out as it was given."""

    code = "invalid_request"
    status = 400
    exit_code = ExitCode.USAGE


class Unauthenticated(UsageError):
    """It is not known who asks."""

    code = "unauthenticated"
    status = 401


class TokenMissing(Unauthenticated):
    """A token is needed. Send `Authorization: Bearer dlk_…`."""

    code = "token_missing"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class TokenInvalid(Unauthenticated):
    """The token is not one that is known here."""

    code = "token_invalid"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class TokenExpired(Unauthenticated):
    """The token has expired."""

    code = "token_expired"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class Forbidden(UsageError):
    """This may not be done with this token or by this user."""

    code = "forbidden"
    status = 403


class NotFound(UsageError):
    """There is no such thing, or it belongs to someone else."""

    code = "not_found"
    status = 404


class TooLarge(UsageError):
    """It is larger than is allowed."""

    code = "too_large"
    status = 413


class InvalidValue(UsageError):
    """A value cannot be stored."""

    code = "invalid_value"
    status = 422


class InvalidCursor(UsageError):
    """The cursor is not one that this list has given."""

    code = "invalid_cursor"
    status = 422


class UnknownModel(UsageError):
    """The model is not in the catalogue."""

    code = "unknown_model"
    status = 422
    remedy = Remedy(RemedyAction.CHOOSE_MODEL)


class Conflict(UsageError):
    """The thing is not in a state in which this can be done."""

    code = "conflict"
    status = 409


class IllegalMove(Conflict):
    """A job cannot move from its status to the one asked for."""

    code = "illegal_move"


class InProgress(Conflict):
    """The same request is being answered at this moment. Send it again a little later."""

    code = "in_progress"
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class PreconditionFailed(UsageError):
    """It has changed since it was read. Read it again."""

    code = "precondition_failed"
    status = 412


class KeyReused(UsageError):
    """The Idempotency-Key was used for another request. Take a new key for a new request."""

    code = "idempotency_key_reused"
    status = 422


class ForbiddenAddress(UsageError):
    """The address is not one that may be called."""

    code = "forbidden_address"
    status = 422


class InvalidProcess(UsageError):
    """A process file breaks a rule."""

    code = "invalid_process"
    status = 422


class TooManyStreams(UsageError):
    """Too many streams of events are open."""

    code = "too_many_streams"
    status = 429
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class TooManyUploads(UsageError):
    """Too many files are being sent at the same time."""

    code = "too_many_uploads"
    status = 429
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class InvalidBundle(UsageError):
    """The archive is no export of a project, or not one that can be taken in."""

    code = "invalid_bundle"
    status = 422


class InvalidUpload(UsageError):
    """The file has no text that can be read."""

    code = "invalid_upload"
    status = 422


class UploadTooLarge(InvalidUpload):
    """The file, or its text, is larger than what is taken."""

    code = "upload_too_large"
    status = 413


class ConfigurationError(DialecticError):
    """The configuration is broken."""

    code = "configuration"
    status = 503
    exit_code = ExitCode.CONFIGURATION


class KeyMissing(ConfigurationError):
    """The key of a model's endpoint is not set."""

    code = "key_missing"
    fate = Fate.PAUSE


class DatabaseUnreachable(ConfigurationError):
    """The database does not answer."""

    code = "database_unreachable"
    remedy = Remedy(RemedyAction.CHECK_SETUP)
    fate = Fate.DROP  # nothing can be written; the lease runs out by itself


class DatabaseFull(ConfigurationError):
    """The database has no room left."""

    code = "database_full"
    fate = Fate.PAUSE


class SchemaChanged(ConfigurationError):
    """Another version of the program has upgraded the database."""

    code = "schema_changed"
    fate = Fate.DROP  # a worker that fits the database takes the job up


class SchemaOutdated(ConfigurationError):
    """The database was made by a version that this one cannot upgrade."""

    code = "schema_outdated"


class EmbeddedServerError(ConfigurationError):
    """The embedded PostgreSQL cannot run here."""

    code = "embedded_server"


class ServerUnreachable(ConfigurationError):
    """The server does not answer."""

    code = "server_unreachable"


class StorageMismatch(ConfigurationError):
    """The documents of this database are kept elsewhere."""

    code = "storage_mismatch"


class StorageUnavailable(ConfigurationError):
    """Files cannot be written or read where they belong."""

    code = "storage_unavailable"
    fate = Fate.PAUSE


class TooManyRequests(DialecticError):
    """There were more requests than this token may make."""

    code = "too_many_requests"
    status = 429
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)

    def __init__(
        self, message: str | None = None, *, retry_after_s: float = 1.0, **facts: Unpack[Facts]
    ) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class ServerBusy(DialecticError):
    """The server cannot do it just now."""

    code = "server_busy"
    status = 503
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class DatabaseBusy(DialecticError):
    """The database could not do it just now."""

    code = "database_busy"
    status = 503
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class EndpointBusy(DialecticError):
    """The limits of the endpoint allow no call yet."""

    code = "endpoint_busy"
    status = 503
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)

    def __init__(
        self,
        message: str | None = None,
        *,
        wait_s: float = 0.0,
        closed_s: float = 0.0,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # When this job should come back, and for how long no call of anyone may go there.
        self.wait_s = wait_s
        self.closed_s = closed_s


class CircuitOpen(EndpointBusy):
    """The endpoint keeps failing: nobody calls it but a probe."""

    code = "circuit_open"


class TextBusy(EndpointBusy):
    """Another job is making the shorter text that this one needs."""

    code = "text_busy"


class FundsError(DialecticError):
    """There is not enough money for this call."""

    code = "insufficient_funds"
    status = 402
    exit_code = ExitCode.FUNDS
    fate = Fate.PAUSE

    def __init__(
        self,
        message: str | None = None,
        *,
        is_held_by_others: bool = False,
        needed_credits: int | None = None,
        is_play: bool = False,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # There is enough, but calls in flight have it set aside: what they leave may do.
        self.is_held_by_others = is_held_by_others
        # What there was too little of, and of which kind of money.
        self.needed_credits = needed_credits
        self.is_play = is_play


class SpendNeedsApproval(FundsError):
    """One call would take a larger share of the money than may be spent unasked."""

    code = "spend_needs_approval"


class ContextWindowError(DialecticError):
    """The prompt does not fit the model's window and nothing is left to compress."""

    code = "context_window_exceeded"
    status = 413

    def __init__(
        self,
        message: str | None = None,
        *,
        had_tokens: int | None = None,
        max_tokens: int | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # What a provider that turned the prompt away says of it, if it says anything: how many
        # tokens it has, and how many it may have. Both may include the answer.
        self.had_tokens = had_tokens
        self.max_tokens = max_tokens


@dataclass(frozen=True, slots=True)
class PartialResponse:
    """What a call that failed has left behind."""

    # Whether the request may have been worked on: then it may cost money although it failed.
    was_sent: bool = False
    # What had arrived, and the input and output tokens that were reported for it, if any.
    partial_text: str = ""
    reported_usage: tuple[int, int] | None = None
    request_id: str | None = None
    # What came back, capped and without secrets, for the audit.
    raw: dict[str, Any] | None = None


class ProviderError(DialecticError):
    """The model's provider failed."""

    code = "provider_error"
    status = 502
    fate = Fate.RETRY

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: float | None = None,
        retries_max: int | None = None,
        remains: PartialResponse | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # How long the provider asks us to wait, as it said it: it may make no sense.
        self.retry_after_s = retry_after_s
        # How often this very error is tried again at most, where that is less than the job allows.
        self.retries_max = retries_max
        self.remains = remains or PartialResponse()


class ProviderTransient(ProviderError):
    """The provider did not answer, or said it could not just now."""

    code = "provider_transient"


class ProviderThrottled(ProviderError):
    """The provider asked us to slow down."""

    code = "provider_throttled"


class ProviderMalformed(ProviderError):
    """The provider's answer makes no sense."""

    code = "provider_malformed"


class StreamTruncated(ProviderError):
    """The answer's stream ended without saying why."""

    code = "stream_truncated"


class ProviderQuota(ProviderError):
    """The provider account has no money or quota left."""

    code = "provider_quota"
    fate = Fate.PAUSE


class ProviderAuth(ProviderError):
    """The provider does not accept the key."""

    code = "provider_auth"
    fate = Fate.FAIL


class ProviderRejected(ProviderError):
    """The provider does not accept the request."""

    code = "provider_rejected"
    fate = Fate.FAIL


class ProviderFiltered(ProviderError):
    """The model or a filter refused to answer."""

    code = "provider_filtered"
    fate = Fate.FAIL


class InvalidPayload(DialecticError):
    """A job's payload does not have the form its type demands."""

    code = "invalid_payload"


class PlanError(DialecticError):
    """A plan has no work to do, or more than is allowed."""

    code = "plan_error"


class LeaseLost(DialecticError):
    """Another worker has taken this job over."""

    code = "lease_lost"
    status = 409
    fate = Fate.DROP


class ApiError(DialecticError):
    """The server met an error that this client does not know."""

    code = "api_error"

    def __init__(
        self,
        message: str | None = None,
        *,
        problem: dict[str, Any] | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # All that the server told of it.
        self.problem = problem or {}


class ApiRefusal(ApiError):
    """The server refused a request in a way that this client does not know."""

    code = "api_refusal"
    status = 400
    exit_code = ExitCode.USAGE

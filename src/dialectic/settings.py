"""Settings: one typed object, read from the environment, then from HOME/config.toml.

The only reader of the environment, including the providers' keys, which it returns as secrets; keys
may also be in `.env` of the current folder, or stored (`keys`). An unknown name is an error that
names the nearest known one: a typo never silently means the default.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dialectic.config_file import FILE as CONFIG_FILE
from dialectic.config_file import read_config
from dialectic.core.access import HIDDEN, Secret
from dialectic.core.bucket import BucketAccess
from dialectic.core.models.endpoint import BUILT_IN, SECOND_NAMES, Endpoint, parse_origin
from dialectic.core.models.endpoint_config import (
    Check,
    Declared,
    Place,
    build_check,
    parse_endpoints,
)
from dialectic.core.suggestion import find_near
from dialectic.errors import ConfigurationError, KeyMissing
from dialectic.keys import KeyPlace, load_stored_keys, read_dotenv

PREFIX = "DIALECTIC_"
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LOG_FORMATS = ("auto", "text", "json")
EMBEDDER = "builtin/static"


def _whole(low: int, high: int) -> Check:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) else value
        if type(number) is not int or not low <= number <= high:
            raise ValueError
        return number

    return Check(f"a whole number from {low} to {high}", read)


def _number(low: float, high: float, *, above: bool = False) -> Check:
    def read(value: Any) -> float:
        is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
        number = float(value) if is_number else float("nan")
        if not (low < number if above else low <= number) or not number <= high:
            raise ValueError
        return number

    return Check(f"a number {'above' if above else 'from'} {low:g} up to {high:g}", read)


def _one_of(words: Sequence[str]) -> Check:
    known = {word.lower(): word for word in words}
    return Check(f"one of {', '.join(words)}", lambda value: known[value.lower()])


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


_TEXT = build_check("a non-empty text", _is_text, str.strip)
_SECRET = build_check(_TEXT.words, _is_text, lambda value: Secret(value.strip()))
ENCRYPTION_KEY_BYTES = 32


def _read_encryption_key(value: Any) -> Secret:
    keys = [part.strip() for part in value.split(",")]
    if any(len(base64.b64decode(key, validate=True)) != ENCRYPTION_KEY_BYTES for key in keys):
        raise ValueError
    return Secret(",".join(keys))


_ENCRYPTION_KEY = Check(
    "32 random bytes in base64; to change it, the new one, a comma and the old one",
    _read_encryption_key,
)
_ORIGINS = Check(
    "origins such as http://127.0.0.1:8080, with commas between them",
    lambda value: ",".join(parse_origin(part.strip()) for part in value.split(",")),
)
_FLAG = Check(
    "one of true, false", lambda value: {"true": True, "false": False}[str(value).strip().lower()]
)
_ADDRESS = build_check(
    "a URL that begins with http:// or https://",
    lambda value: isinstance(value, str) and value.strip().startswith(("http://", "https://")),
    str.strip,
)


def _setting(default: Any, check: Check, doc: str) -> Any:
    return field(default=default, metadata={"check": check, "doc": doc})


def _secret(doc: str, check: Check = _SECRET) -> Any:
    return field(default=None, repr=False, compare=False, metadata={"check": check, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings. Each field is DIALECTIC_NAME, or `name` in config.toml."""

    home: Path = field(metadata={"doc": "Where state lives: database, files, config.toml."})
    database_url: str = _setting("", _TEXT, "A PostgreSQL server (15 or later, with pgvector).")
    database_idle_s: float = _setting(
        900.0, _number(0.0, 86_400.0), "How long the embedded server stays after the last command."
    )
    storage_url: str = _setting("", _TEXT, "Where documents are kept; default file://HOME/storage.")
    storage_endpoint: str = _setting("", _TEXT, "The S3 server, if it is not Amazon's.")
    storage_region: str = _setting("us-east-1", _TEXT, "The region of an S3 bucket.")
    storage_path_style: bool = _setting(True, _FLAG, "Name an S3 bucket in the path, not the host.")
    storage_allow_http: bool = _setting(False, _FLAG, "Talk to an S3 server without encryption.")
    storage_access_key_id: Secret | None = _secret("The name of an S3 key.")
    storage_secret_access_key: Secret | None = _secret("The S3 key itself.")
    storage_session_token: Secret | None = _secret("The session token of a temporary S3 key.")
    default_models: str = _setting("", _TEXT, "Models of a run that names none, comma separated.")
    default_process: str = _setting(
        "", _TEXT, "Process of a command's run that names none; without it, standard."
    )
    offline_words_per_s: float = _setting(
        0.0, _number(0.0, 1_000_000.0), "How fast offline models write, to watch them; 0: at once."
    )
    embedder: str = _setting(EMBEDDER, _TEXT, "What turns text into vectors for search.")
    max_continuations: int = _setting(5, _whole(0, 100), "Further turns for one cut-off answer.")
    max_retries: int = _setting(3, _whole(0, 20), "Retries after a temporary error.")
    retry_unreachable_s: float = _setting(
        120.0, _number(0.0, 86_400.0), "How long to retry an endpoint that accepts no connection."
    )
    max_spend_fraction: float = _setting(
        0.2,
        _number(0.0, 1.0, above=True),
        "Share of the balance that one call may cost without approval.",
    )
    confirm_above_usd: float = _setting(
        1.0, _number(0.0, 1_000_000.0), "A run with a higher estimate needs confirmation."
    )
    preflight: bool = _setting(
        True, _FLAG, "Ask each model of a run one short question before the run starts."
    )
    worker_concurrency: int = _setting(64, _whole(1, 1000), "Jobs one worker runs at a time.")
    max_prompt_bytes: int = _setting(10_000_000, _whole(1, 1_000_000_000), "Longest prompt.")
    requests_per_minute: int = _setting(
        600, _whole(1, 1_000_000), "Requests that one token may make over HTTP."
    )
    log_level: str = _setting("WARNING", _one_of(LOG_LEVELS), "How much is logged to stderr.")
    log_format: str = _setting(
        "auto",
        _one_of(LOG_FORMATS),
        "Logs as text or json; auto is json for `serve`, text for the rest.",
    )
    otlp_url: str = _setting(
        "", _ADDRESS, "The OpenTelemetry collector that traces are sent to, over OTLP/HTTP."
    )
    otlp_headers: Secret | None = _secret(
        "Headers that the collector asks for: name=value,name=value."
    )
    lease_s: float = _setting(
        6.0, _number(0.3, 600.0), "How long a silent worker keeps the lease of a job."
    )
    max_lost_leases: int = _setting(
        10, _whole(0, 1000), "Workers that may die with one job before it fails."
    )
    events_kept_days: float = _setting(
        7.0, _number(0.0, 36500.0, above=True), "How long events are kept for resuming clients."
    )
    events_kept_max: int = _setting(
        100_000, _whole(1, 1_000_000_000), "How many events of a tenant are kept."
    )
    event_streams_max: int = _setting(
        1000, _whole(1, 100_000), "Event streams that a tenant may have open in one process."
    )
    encryption_key: Secret | None = _secret(
        "Encrypts the keys of tenants' own endpoints: 32 random bytes in base64.", _ENCRYPTION_KEY
    )
    tenant_origins: str = _setting(
        "", _ORIGINS, "Origins besides public https ones that tenants' own endpoints may have."
    )
    server: str = _setting("", _TEXT, "The server that commands are for; else this machine.")
    token: Secret | None = _secret("Your access token for that server.")
    failpoints: str = _setting("", _TEXT, "Where a test makes this process fail; see failpoints.")
    endpoints: Mapping[str, Declared] = field(
        default_factory=dict, metadata={"doc": "The endpoints of models; tables in config.toml."}
    )
    keys: Mapping[str, Secret] = field(
        default_factory=dict,
        repr=False,
        compare=False,
        metadata={"doc": "Keys of endpoints, by the variables that hold them."},
    )
    key_places: Mapping[str, KeyPlace] = field(
        default_factory=dict,
        compare=False,
        metadata={"doc": "Where each key was found."},
    )

    @property
    def config_path(self) -> Path:
        return self.home / CONFIG_FILE

    @property
    def storage_location(self) -> str:
        return self.storage_url or (self.home / "storage").as_uri()

    @property
    def storage_access(self) -> BucketAccess:
        """The access settings of an S3 server, if documents are stored on one."""
        return BucketAccess(
            endpoint=self.storage_endpoint,
            region=self.storage_region,
            is_path_style=self.storage_path_style,
            allows_http=self.storage_allow_http,
            key_id=self.storage_access_key_id,
            key=self.storage_secret_access_key,
            session_token=self.storage_session_token,
        )

    @property
    def secrets(self) -> list[Secret]:
        """The secrets that no log may show."""
        access = self.storage_access
        own = (
            *(access.key_id, access.key, access.session_token),
            *(self.token, self.otlp_headers),
        )
        kept = (*self.keys.values(), *self.encryption_keys)
        return [*kept, *(secret for secret in own if secret is not None)]

    @property
    def encryption_keys(self) -> list[Secret]:
        """The keys that decrypt what is stored; the first one encrypts."""
        key = self.encryption_key
        return [] if key is None else [Secret(part) for part in key.reveal().split(",")]

    @property
    def allowed_origins(self) -> list[str]:
        """The origins that tenants' own endpoints may have, besides public ones."""
        return self.tenant_origins.split(",") if self.tenant_origins else []

    @property
    def own_processes(self) -> Path:
        """The folder of a user's own processes, to be found by name."""
        return self.home / "processes"

    def list_endpoints(self) -> dict[str, Endpoint]:
        """List all endpoints by name: the built-in ones, changed by config.toml, and its own."""
        return BUILT_IN | {name: declared.endpoint for name, declared in self.endpoints.items()}

    def find_key(self, endpoint: Endpoint) -> Secret | None:
        """Find the key of an endpoint; None if its variable is not set, or it needs none."""
        name = self.find_key_name(endpoint)
        return None if name is None else self.keys[name]

    def find_key_name(self, endpoint: Endpoint) -> str | None:
        """Find the variable whose key an endpoint uses; None if there is none."""
        return next((name for name in _variables(endpoint) if name in self.keys), None)

    def reveal_keys(self) -> None:
        """Fetch the keys in the system's keyring, which may ask for a password.

        A key that cannot be fetched is reported when it is needed.
        """
        for key in self.keys.values():
            with contextlib.suppress(KeyMissing):
                key.reveal()

    @classmethod
    def load(
        cls, environ: Mapping[str, str] | None = None, *, folder: Path | None = None
    ) -> Settings:
        """Read the environment, then HOME/config.toml; the environment wins.

        Keys may also be in `.env` of the current folder; of a given environment, in `folder`.
        """
        variables = os.environ if environ is None else environ
        if environ is None:
            folder = _find_folder()
        given = {
            name.removeprefix(PREFIX).lower(): (value, f"environment variable {name}")
            for name, value in sorted(variables.items())
            if name.startswith(PREFIX)
        }
        home_text, _ = given.pop("home", ("", ""))
        home = _parse_home(home_text) if home_text else default_home()
        path = home / CONFIG_FILE
        config = _read_config(path)
        tables, _ = config.pop("endpoints", ({}, ""))
        values = {
            name: _parse(name, value, place) for name, (value, place) in {**config, **given}.items()
        }
        endpoints = parse_endpoints(tables, Place(str(path), ("endpoints",)))
        keyless = cls(home=home, endpoints=endpoints, **values)
        found = _collect_keys(keyless, variables, folder)
        return dataclasses.replace(
            keyless,
            keys={name: key for name, (_, key) in found.items()},
            key_places={name: place for name, (place, _) in found.items()},
        )


def _variables(endpoint: Endpoint) -> list[str]:
    """List the variables that may hold an endpoint's key, in order of precedence."""
    names = (endpoint.api_key_env, SECOND_NAMES.get(endpoint.api_key_env or ""))
    return [name for name in names if name]


def _collect_keys(
    settings: Settings, variables: Mapping[str, str], folder: Path | None
) -> dict[str, tuple[KeyPlace, Secret]]:
    wanted = [name for end in settings.list_endpoints().values() for name in _variables(end)]
    stored = load_stored_keys(settings.home)
    written = {} if folder is None else read_dotenv(folder, wanted)
    found: dict[str, tuple[KeyPlace, Secret]] = {}
    for name in wanted:
        if key := variables.get(name, "").strip():
            found[name] = KeyPlace.ENVIRONMENT, Secret(key)
        elif name in written:
            found[name] = KeyPlace.DOTENV, written[name]
        elif name in stored:
            found[name] = stored[name]
    return found


def _find_folder() -> Path | None:
    """Find the current folder; None if it has been deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def inherited_environment() -> dict[str, str]:
    """Copy this process's environment, for a program that it starts."""
    return dict(os.environ)


def default_home() -> Path:
    """Find the platform's folder for user data."""
    import platformdirs  # takes 10 ms, saved if DIALECTIC_HOME is set

    return Path(platformdirs.user_data_dir("dialectic", appauthor=False))


def _parse_home(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ConfigurationError(
            f"The value of environment variable {PREFIX}HOME is {text!r}, but that user does "
            "not exist. Write the folder's absolute path.",
            reason="no_user",
            subject=f"{PREFIX}HOME",
        ) from None


# The settings with a single value; `endpoints` is a table and only allowed in the file.
NOT_SINGLE = ("endpoints", "keys", "key_places")
KNOWN = tuple(f.name for f in dataclasses.fields(Settings) if f.name not in NOT_SINGLE)


def _parse(name: str, value: Any, place: str) -> Any:
    known = {f.name: f for f in dataclasses.fields(Settings) if f.name in KNOWN}
    if name not in known:
        is_variable = place.startswith("environment")
        spelled = {key: f"{PREFIX}{key.upper()}" if is_variable else key for key in KNOWN}
        if not is_variable:
            spelled["endpoints"] = "[endpoints.NAME]"
        near = find_near(name, spelled, cutoff=0.65)
        hint = (
            f"Did you mean `{spelled[near]}`?"
            if near is not None
            else f"Remove it, or use one of: {', '.join(spelled.values())}."
        )
        raise ConfigurationError(
            f"Unknown setting in {place}. {hint}", reason="unknown_setting", subject=name
        )
    check: Check = known[name].metadata["check"]
    try:
        return check.read(value)
    except (LookupError, AttributeError, ValueError, TypeError, OverflowError):
        shown = repr(value) if known[name].repr else HIDDEN
        raise ConfigurationError(
            f"The value of {place} is {shown}; it must be {check.words}.",
            reason="bad_value",
            subject=name,
        ) from None


def _read_config(path: Path) -> dict[str, tuple[Any, str]]:
    table = read_config(path)
    if "home" in table:
        raise ConfigurationError(
            f"`home` cannot be set in {path}, which is in that folder. Set {PREFIX}HOME instead.",
            reason="home_in_file",
            subject="home",
        )
    return {name: (value, f"key `{name}` in {path}") for name, value in table.items()}

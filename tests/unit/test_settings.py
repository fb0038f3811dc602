"""A setting comes from one of two places, and a mistake in either is named with its remedy."""

from __future__ import annotations

import base64
import dataclasses
import os
from pathlib import Path

import pytest

from dialectic.core.models.endpoint import BUILT_IN, KEY_VARIABLES, Endpoint
from dialectic.errors import ConfigurationError, ExitCode
from dialectic.settings import KNOWN, LOG_LEVELS, Settings, default_home, inherited_environment
from tests.cases import each_case
from tests.problems import check_error, refusing

DEFAULTS = {
    "database_url": "",
    "database_idle_s": 900.0,
    "storage_url": "",
    "storage_endpoint": "",
    "storage_region": "us-east-1",
    "storage_path_style": True,
    "storage_allow_http": False,
    "storage_access_key_id": None,
    "storage_secret_access_key": None,
    "storage_session_token": None,
    "default_models": "",
    "default_process": "",
    "offline_words_per_s": 0.0,
    "embedder": "builtin/static",
    "max_continuations": 5,
    "max_retries": 3,
    "retry_unreachable_s": 120.0,
    "max_spend_fraction": 0.2,
    "confirm_above_usd": 1.0,
    "preflight": True,
    "worker_concurrency": 64,
    "max_prompt_bytes": 10_000_000,
    "requests_per_minute": 600,
    "log_level": "WARNING",
    "log_format": "auto",
    "otlp_url": "",
    "otlp_headers": None,
    "lease_s": 6.0,
    "max_lost_leases": 10,
    "events_kept_days": 7.0,
    "events_kept_max": 100_000,
    "event_streams_max": 1000,
    "encryption_key": None,
    "tenant_origins": "",
    "server": "",
    "token": None,
    "failpoints": "",
    "endpoints": {},
    "keys": {},
    "key_places": {},
}


def load(home: Path, **environ: str) -> Settings:
    named = {f"DIALECTIC_{name.upper()}": value for name, value in environ.items()}
    return Settings.load({"DIALECTIC_HOME": str(home), **named})


def write_config(home: Path, text: str | bytes) -> Path:
    path = home / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(home: Path, **environ: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(home, **environ)
    assert caught.value.exit_code is ExitCode.CONFIGURATION
    return caught.value


# -- where values come from ------------------------------------------------------------------------


def test_without_any_setting_the_defaults_hold(tmp_path: Path) -> None:
    assert dataclasses.asdict(load(tmp_path)) == {"home": tmp_path, **DEFAULTS}


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    write_config(tmp_path, "max_retries = 7\nlease_s = 12\n")
    settings = load(tmp_path, max_retries="9")
    assert (settings.max_retries, settings.lease_s) == (9, 12.0)
    assert settings.worker_concurrency == 64


def test_a_wrong_value_in_the_file_does_not_matter_where_the_environment_wins(
    tmp_path: Path,
) -> None:
    write_config(tmp_path, "max_retries = 'many'")
    assert load(tmp_path, max_retries="1").max_retries == 1


def test_home_is_made_absolute_and_a_tilde_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings.load({"DIALECTIC_HOME": "here"}).home == tmp_path / "here"
    assert Settings.load({"DIALECTIC_HOME": "~/there"}).home == tmp_path / "there"


def test_an_empty_home_is_the_default_one() -> None:
    for environ in ({"DIALECTIC_HOME": ""}, {}):
        assert Settings.load(environ).home == default_home()


def test_the_home_of_a_user_who_does_not_exist_is_refused() -> None:
    with refusing(
        ConfigurationError, "~nobody-of-that-name/x", reason="no_user", subject="DIALECTIC_HOME"
    ):
        Settings.load({"DIALECTIC_HOME": "~nobody-of-that-name/x"})


def test_variables_of_other_programs_are_none_of_ours(tmp_path: Path) -> None:
    settings = Settings.load({"DIALECTIC_HOME": str(tmp_path), "LEASE_S": "x", "DIALECT_X": "y"})
    assert settings.lease_s == DEFAULTS["lease_s"]


def test_the_process_environment_is_read_when_no_other_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALECTIC_HOME", str(tmp_path))
    monkeypatch.setenv("DIALECTIC_MAX_RETRIES", "4")
    monkeypatch.delenv("DIALECTIC_DATABASE_IDLE_S")
    assert Settings.load() == load(tmp_path, max_retries="4")
    assert inherited_environment() == dict(os.environ)


def test_documents_are_kept_below_home_unless_somewhere_else_is_named(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    assert load(home).storage_location == f"file://{tmp_path}/a%20home/storage"
    assert load(home, storage_url="file:///srv/x").storage_location == "file:///srv/x"


def test_the_key_of_a_bucket_is_read_from_both_places_and_shown_nowhere(tmp_path: Path) -> None:
    write_config(tmp_path, "storage_secret_access_key = 'of-the-file'\nstorage_path_style = false")
    settings = load(tmp_path, storage_access_key_id=" of-the-environment ")
    access = settings.storage_access
    assert (access.key_id, access.key) == tuple(settings.secrets)
    assert [secret.reveal() for secret in settings.secrets] == ["of-the-environment", "of-the-file"]
    assert not access.is_path_style
    for shown in (repr(settings), repr(access)):
        assert "of-the" not in shown
    error = refusal(tmp_path, storage_secret_access_key="", storage_allow_http="perhaps")
    assert "of-the" not in error.message


def test_a_wrong_value_of_a_secret_is_not_repeated(tmp_path: Path) -> None:
    write_config(tmp_path, "storage_secret_access_key = 12345")
    error = refusal(tmp_path)
    check_error(error, reason="bad_value", subject="storage_secret_access_key")
    assert "12345" not in error.message


@pytest.mark.parametrize(("text", "value"), [("true", True), (" False ", False)])
def test_a_switch_is_true_or_false(tmp_path: Path, text: str, value: bool) -> None:
    assert load(tmp_path, storage_allow_http=text).storage_allow_http is value
    error = refusal(tmp_path, storage_allow_http="1")
    check_error(error, "true, false", reason="bad_value", subject="storage_allow_http")


def test_every_setting_says_what_it_is_for() -> None:
    for field in dataclasses.fields(Settings):
        doc = field.metadata["doc"]
        assert doc[0].isupper(), field.name
        assert doc.endswith("."), field.name


def test_every_default_but_an_empty_one_is_a_value_one_could_have_set() -> None:
    for field in dataclasses.fields(Settings):
        if field.name in KNOWN and field.name != "home" and field.default not in ("", None):
            assert field.metadata["check"].read(field.default) == field.default, field.name


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("MAX_RETRY", "MAX_RETRIES"), ("LEASE", "LEASE_S"), ("DB_URL", "DATABASE_URL")],
)
def test_an_unknown_variable_suggests_the_nearest(tmp_path: Path, wrong: str, right: str) -> None:
    error = refusal(tmp_path, **{wrong: "1"})
    check_error(error, f"DIALECTIC_{wrong}", f"`DIALECTIC_{right}`", reason="unknown_setting")


def test_an_unknown_key_suggests_the_nearest(tmp_path: Path) -> None:
    path = write_config(tmp_path, "max_retrys = 3")
    error = refusal(tmp_path)
    check_error(error, str(path), "`max_retries`", reason="unknown_setting", subject="max_retrys")


@pytest.mark.parametrize("wrong", ["", "qqq", "NOPE", "ENDPOINTS"])
def test_a_name_like_no_other_is_told_all_names_and_no_guess(tmp_path: Path, wrong: str) -> None:
    names = "DIALECTIC_HOME, DIALECTIC_DATABASE_URL, DIALECTIC_DATABASE_IDLE_S"
    check_error(refusal(tmp_path, **{wrong: "1"}), names, reason="unknown_setting")


def test_a_table_in_the_file_is_an_unknown_key(tmp_path: Path) -> None:
    write_config(tmp_path, "[lease_s]\nvalue = 3\n\n[worker]\nconcurrency = 3\n")
    assert refusal(tmp_path).subject == "lease_s"


def test_home_cannot_be_set_in_the_file_that_lies_in_it(tmp_path: Path) -> None:
    path = write_config(tmp_path, "home = '/elsewhere'")
    check_error(refusal(tmp_path), str(path), "DIALECTIC_HOME", reason="home_in_file")


# -- values ----------------------------------------------------------------------------------------

# What is allowed, by its ends or by its names.
RETRIES = (" 0 ", "20")
LEASE = ("0.3", "600")
FRACTION = (" 0 ", " 1")
TEXT = ()
LEVEL = (", ".join(LOG_LEVELS),)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_retries", "many", RETRIES),
        ("max_retries", "", RETRIES),
        ("max_retries", "1.5", RETRIES),
        ("max_retries", "-1", RETRIES),
        ("max_retries", "21", RETRIES),
        ("max_retries", "9" * 5000, RETRIES),
        ("lease_s", "long", LEASE),
        ("lease_s", "", LEASE),
        ("lease_s", "0.2", LEASE),
        ("lease_s", "601", LEASE),
        ("lease_s", "nan", LEASE),
        ("lease_s", "inf", LEASE),
        ("max_spend_fraction", "0", FRACTION),
        ("max_spend_fraction", "1.01", FRACTION),
        ("database_url", "", TEXT),
        ("embedder", "  ", TEXT),
        ("log_level", "LOUD", LEVEL),
        ("log_level", "", LEVEL),
    ],
)
def test_a_wrong_value_of_a_variable_is_named_with_its_place_and_what_is_allowed(
    tmp_path: Path, name: str, value: str, allowed: tuple[str, ...]
) -> None:
    error = refusal(tmp_path, **{name: value})
    check_error(error, f"DIALECTIC_{name.upper()}", repr(value), *allowed)
    check_error(error, reason="bad_value", subject=name)


@pytest.mark.parametrize(
    ("name", "written", "shown", "allowed"),
    [
        ("max_retries", "'many'", "'many'", RETRIES),
        ("max_retries", "true", "True", RETRIES),
        ("max_retries", "3.0", "3.0", RETRIES),
        ("max_retries", "[3]", "[3]", RETRIES),
        ("lease_s", "true", "True", LEASE),
        ("lease_s", "[]", "[]", LEASE),
        ("lease_s", "nan", "nan", LEASE),
        ("lease_s", "1" + 400 * "0", "1" + 400 * "0", LEASE),
        ("embedder", "3", "3", TEXT),
        ("log_level", "3", "3", LEVEL),
    ],
)
def test_a_wrong_value_in_the_file_is_named_with_its_place_and_what_is_allowed(
    tmp_path: Path, name: str, written: str, shown: str, allowed: tuple[str, ...]
) -> None:
    path = write_config(tmp_path, f"{name} = {written}")
    error = refusal(tmp_path)
    check_error(error, str(path), shown, *allowed, reason="bad_value", subject=name)


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("max_retries", "0", 0),
        ("max_retries", " 20 ", 20),
        ("worker_concurrency", "1", 1),
        ("lease_s", "0.3", 0.3),
        ("lease_s", "600", 600.0),
        ("max_spend_fraction", "1", 1.0),
        ("log_level", "debug", "DEBUG"),
        ("embedder", " a/b ", "a/b"),
    ],
)
def test_a_value_at_the_edge_of_what_is_allowed_is_taken(
    tmp_path: Path, name: str, value: str, parsed: object
) -> None:
    assert getattr(load(tmp_path, **{name: value}), name) == parsed


# -- the file --------------------------------------------------------------------------------------


def test_broken_toml_is_named_with_its_line(tmp_path: Path) -> None:
    path = write_config(tmp_path, "max_retries = 3\nlease_s = = 2\n")
    check_error(refusal(tmp_path), "line 2", reason="not_toml", subject=str(path))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"max_retries = " + b"9" * 5000])
def test_a_value_that_no_toml_file_can_hold_is_not_valid_toml(
    tmp_path: Path, content: bytes
) -> None:
    path = write_config(tmp_path, content)
    check_error(refusal(tmp_path), reason="not_toml", subject=str(path))


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    path = str(tmp_path / "config.toml")
    check_error(refusal(tmp_path), "Is a directory", reason="unreadable", subject=path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_someone_else_is_named_with_the_reason(tmp_path: Path) -> None:
    write_config(tmp_path, "").chmod(0)
    check_error(refusal(tmp_path), "Permission denied", reason="unreadable")


def test_a_home_that_is_a_file_is_named_with_the_reason(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    path = f"{home}/config.toml"
    check_error(refusal(home), "Not a directory", reason="unreadable", subject=path)


# -- endpoints and keys ----------------------------------------------------------------------------

LOCAL = """
[endpoints.local]
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_KEY"
"""
CANARY = "sk-canary-5f1d"


def load_with_keys(home: Path, **keys: str) -> Settings:
    return Settings.load({"DIALECTIC_HOME": str(home), **keys})


def test_endpoints_are_those_built_in_and_those_of_the_file(tmp_path: Path) -> None:
    write_config(tmp_path, LOCAL)
    endpoints = load(tmp_path).list_endpoints()
    assert list(endpoints) == ["openai", "anthropic", "google", "local"]
    assert endpoints["local"].base_url == "http://127.0.0.1:8080/v1"
    assert endpoints["openai"] == BUILT_IN["openai"]


def test_the_file_changes_what_is_built_in(tmp_path: Path) -> None:
    write_config(tmp_path, "[endpoints.google]\nbase_url = 'http://127.0.0.1:1/v1beta'\n")
    endpoints = load(tmp_path).list_endpoints()
    assert list(endpoints) == list(BUILT_IN)
    assert endpoints["google"].base_url == "http://127.0.0.1:1/v1beta"


def test_a_wrong_endpoint_is_named_with_its_file(tmp_path: Path) -> None:
    path = write_config(tmp_path, LOCAL.replace("openai", "morse"))
    error = refusal(tmp_path)
    check_error(error, str(path), "'morse'", "openai, anthropic, google")
    check_error(error, reason="bad_value", subject="endpoints.local.kind")


def test_a_misspelt_table_of_endpoints_is_corrected(tmp_path: Path) -> None:
    path = write_config(tmp_path, LOCAL.replace("endpoints", "endpoint"))
    error = refusal(tmp_path)
    check_error(error, str(path), "`[endpoints.NAME]`", reason="unknown_setting")
    assert error.subject == "endpoint"


def test_a_key_is_found_by_the_variable_of_its_endpoint(tmp_path: Path) -> None:
    write_config(tmp_path, LOCAL)
    settings = load_with_keys(tmp_path, LOCAL_KEY=CANARY, OPENAI_API_KEY=" k2\n", PATH="/bin")
    endpoints = settings.list_endpoints()
    keys = {name: settings.find_key(endpoint) for name, endpoint in endpoints.items()}
    assert {name: key.reveal() for name, key in keys.items() if key} == {
        "local": CANARY,
        "openai": "k2",
    }


def test_an_endpoint_without_a_variable_has_no_key(tmp_path: Path) -> None:
    plain = Endpoint(name="x", kind=BUILT_IN["openai"].kind, base_url="http://x")
    assert load_with_keys(tmp_path, OPENAI_API_KEY=CANARY).find_key(plain) is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, "a"),
        ({"GOOGLE_API_KEY": "b"}, "b"),
        ({"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "b"}, "b"),
        ({"GEMINI_API_KEY": " "}, None),
        ({}, None),
    ],
)
def test_the_second_name_of_a_variable_counts_when_the_first_is_not_set(
    tmp_path: Path, given: dict[str, str], found: str | None
) -> None:
    key = load_with_keys(tmp_path, **given).find_key(BUILT_IN["google"])
    assert (key.reveal() if key else None) == found


def test_settings_never_show_a_key(tmp_path: Path) -> None:
    write_config(tmp_path, LOCAL)
    settings = load_with_keys(tmp_path, LOCAL_KEY=CANARY, **dict.fromkeys(KEY_VARIABLES, CANARY))
    assert len(settings.keys) == 5
    assert CANARY not in repr(settings)
    assert CANARY not in f"{settings} {settings.keys} {settings.endpoints}"


def test_only_variables_that_an_endpoint_names_are_read(tmp_path: Path) -> None:
    settings = load_with_keys(tmp_path, LOCAL_KEY=CANARY, AWS_SECRET=CANARY)
    assert settings.keys == {}


# -- tenants' own endpoints ------------------------------------------------------------------------

NEW, OLD = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


def test_an_encryption_key_may_be_followed_by_older_ones_and_is_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, encryption_key=f"{NEW}, {OLD}")
    assert [key.reveal() for key in settings.encryption_keys] == [NEW, OLD]
    assert NEW not in repr(settings)
    assert {NEW, OLD} <= {secret.reveal() for secret in settings.secrets}


@each_case("value", ["short", "a passphrase of some words", f"{NEW},", NEW[:-4]])
def test_a_weak_encryption_key_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    error = refusal(tmp_path, encryption_key=value)
    check_error(error, reason="bad_value", subject="encryption_key")
    assert value.strip(",") not in error.message


def test_origins_of_tenants_are_compared_by_scheme_host_and_port(tmp_path: Path) -> None:
    settings = load(tmp_path, tenant_origins="https://LLM.lan/v1, http://127.0.0.1:8080")
    assert settings.allowed_origins == ["https://llm.lan:443", "http://127.0.0.1:8080"]
    error = refusal(tmp_path, tenant_origins="llm.lan")
    check_error(error, reason="bad_value", subject="tenant_origins")

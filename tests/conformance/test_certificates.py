"""A server with an expired or unsigned certificate is refused, with an error that says so."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic.core.access import Secret
from dialectic.core.bucket import BucketAccess
from dialectic.errors import ProviderTransient, StorageUnavailable
from dialectic.storage.file_store import open_store
from tests.conformance.fault_rows import row
from tests.conformance.provider_client import Client
from tests.problems import refusing

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs openssl to make certificates"
)


@dataclass(frozen=True, slots=True)
class SecureServer:
    """A secure server that says nothing, and the file that trusts its certificate."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


def make_certificate(folder: Path, *, days: int) -> tuple[Path, Path]:
    key, request, certificate = (folder / f"{name}.pem" for name in ("key", "request", "cert"))
    subprocess.run(
        [
            *("openssl", "req", "-new", "-nodes", "-newkey", "ec", "-subj", "/CN=localhost"),
            *("-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", key, "-out", request),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [
            *("openssl", "x509", "-req", "-in", request, "-signkey", key, "-days", str(days)),
            *("-copy_extensions", "copy", "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture(params=[-1, 30], ids=["expired", "valid"])
async def secure_server(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SecureServer]:
    certificate, key = make_certificate(tmp_path, days=request.param)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as server:
        yield SecureServer(server.sockets[0].getsockname()[1], certificate)


@row(23, "TLS expired")
@pytest.mark.parametrize("secure_server", [-1], ids=["expired"], indirect=True)
async def test_a_provider_whose_certificate_has_run_out_is_tried_once_more_only(
    client: Client, secure_server: SecureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure_server.certificate))
    client.options = {"base_url": f"{secure_server.url}/v1"}

    error = await client.fail(ProviderTransient)

    assert error.retries_max == 1
    assert "expired" in error.message
    assert not error.remains.was_sent


@row(23, "TLS of a stranger")
@pytest.mark.parametrize("secure_server", [30], ids=["valid"], indirect=True)
async def test_a_provider_with_an_unsigned_certificate_is_retried_only_once(
    client: Client, secure_server: SecureServer
) -> None:
    client.options = {"base_url": f"{secure_server.url}/v1"}

    error = await client.fail(ProviderTransient)

    assert error.retries_max == 1
    assert "self-signed" in error.message
    assert not error.remains.was_sent


async def test_a_bucket_behind_such_a_certificate_is_not_used(secure_server: SecureServer) -> None:
    access = BucketAccess(
        endpoint=secure_server.url, key_id=Secret("its-name"), key=Secret("hidden")
    )
    with refusing(StorageUnavailable, "certificate", reason="refused"):
        await open_store("s3://documents", access).write("tenant/x.md", b"x")

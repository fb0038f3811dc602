// The requests, responses and events of the API. Written by `make openapi-types` from the
// OpenAPI document; a test compares. For editors and `tsc`: no server sends this file.

/** Calls with their tokens and their price. */
export interface Amount {
  calls?: number;
  input_tokens?: number;
  output_tokens?: number;
  credits?: number;
}

/** What the editors did with an objection. */
export type Answer = "taken" | "kept" | "refused" | "refused_emptily" | "unanswered" | "pending";

/** How far the available money will limit the answers of one model in one stage. */
export interface AnswerLimit {
  stage_slug: string;
  model_name: string;
  max_output_tokens: number;
  limited_from_tokens: number;
}

/** The available money allowed only a shorter answer than the model could give. */
export interface AnswerLimited {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  modelId: string;
  model_name: string;
  turn_index: number;
  /** The limit that the answer got. */
  max_output_tokens: number;
  /** The limit without the lack of money. */
  limited_from_tokens: number;
}

/** The available money allowed only a shorter answer than the model could give. */
export interface AnswerLimitedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_limited";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: AnswerLimited;
}

/** The user who wrote something. */
export interface Author {
  user_id: string;
  /** Null if the user is not a member any more. */
  name: string | null;
}

/** A heading, a paragraph, a list item, a row of a table, or code, and its place in the text. */
export interface Block {
  /** It stays the same while the text before it does. */
  id: string;
  /** In characters (Unicode code points) of the text. */
  start: number;
  /** Behind the last character. */
  end: number;
}

/** Everything that a session page shows, in one snapshot. */
export interface Board {
  /** Continue the event stream here: send it as `after` or `Last-Event-ID`. */
  cursor: string;
  session: BoardSession;
  /** All stages of the process, in order. */
  stages: Array<BoardStage>;
  jobs: Array<BoardJob>;
  /** Without those of intermediate steps, unless they are asked for. */
  documents: Array<BoardDocument>;
  feedback: Array<BoardFeedback>;
  money: SessionMoney;
  needs: Array<BoardNeed>;
  plan: Array<PlanStepFile>;
}

/** A document in its newest version, without its text. */
export interface BoardDocument {
  id: string;
  /** The id of its first version; others refer to it by it. */
  original_id: string;
  job_id: string | null;
  about_id: string | null;
  /** The first document that it descends from. */
  origin_id: string | null;
  source_ids: Array<string>;
  /** What its text calls the documents it read. */
  labels: Record<string, string>;
  title: string;
  excerpt: string;
  words: number;
  size_bytes: number;
  input_tokens: number | null;
  output_tokens: number | null;
  /** US dollars, exactly. */
  charged: string;
  duration_ms: number | null;
  created_at: string;
  rank: number | null;
  seat: number | null;
  model: string;
  stage: string;
  step: string;
  type: string;
  iteration: number;
  version: number;
  versions: number;
  /** The user who wrote this version; null for a model. */
  by: Author | null;
  finish_reason: string | null;
  is_intermediate: boolean;
  is_incomplete: boolean;
  is_stale: boolean;
  flags: Array<string>;
  shortened: Shortened | null;
  /** Of a critique, when it is known. */
  points?: Points | null;
  /** Yours. Absent in events, which are the same for all users. */
  my_rating?: number | null;
  ratings: Ratings;
  parts: Array<DocumentPart>;
}

/** What a user said about a stage or a document, or how they rated it. */
export interface BoardFeedback {
  id: string;
  session_id: string;
  stage: string;
  iteration: number;
  kind: FeedbackKind;
  /** The first version of the document. */
  document_id: string | null;
  text: string;
  rating: number | null;
  /** The claim or dissent that a ruling decides. */
  subject_id: string | null;
  /** What is said there. */
  subject: string | null;
  /** The position of a dissent that a ruling is for. */
  position_id: string | null;
  verdict: RulingVerdict | null;
  /** Since when a ruling no longer counts. */
  withdrawn_at: string | null;
  by: Author;
  created_at: string;
}

/** A call, or a job that shortens inputs for one. */
export interface BoardJob {
  id: string;
  /** The document that it has written. */
  document_id: string | null;
  /** The document that its own is about. */
  about_id: string | null;
  /** The documents that it reads, by their first versions. */
  reads: Array<string>;
  seat: number | null;
  rank: number | null;
  /** Words received so far, while it is running. */
  words: number;
  /** US dollars, exactly. */
  charged: string;
  created_at: string;
  started_at: string | null;
  first_token_at: string | null;
  completed_at: string | null;
  stage: string;
  step: string;
  kind: JobKind;
  iteration: number;
  status: JobStatus;
  /** What it is doing or waiting for; null if neither. */
  phase: JobPhase | null;
  /** The jobs that must end before it runs. */
  waits_for: Array<string>;
  /** How many turns are saved; one more may be running. */
  turn: number;
  attempt: number;
  retries: number;
  retry_at: string | null;
  /** Why it waits or failed. */
  reason: Reason | null;
  errors: Array<Reason>;
}

/** Something that waits for a person. */
export interface BoardNeed {
  code: NeedCode;
  stage: string | null;
  jobs: Array<string>;
  documents: Array<string>;
  since: string | null;
  /** The first of the reasons, if there are several. */
  reason: Reason | null;
  figures: NeedFigures | null;
  /** What helps, the best first. */
  actions: Array<NeedAction>;
}

/** The process of a session. */
export interface BoardProcess {
  name: string;
  title: string;
}

/** The project of a session. */
export interface BoardProject {
  id: string;
  name: string;
  /** The beginning of its prompt, as plain text. */
  prompt_excerpt: string;
}

/** One entry of a session's models; the same model may have several seats. */
export interface BoardSeat {
  /** Its number, from 1; a seat keeps it for the whole session. */
  index: number;
  model: string;
  /** The model without its provider, for narrow places. */
  label: string;
  /** What it argues for, if the process says so. */
  angle: string | null;
  is_lead: boolean;
  /** It costs play money. */
  is_play: boolean;
  /** It was dropped, or it failed and the others go on. */
  has_left: boolean;
}

/** A session, with what it waits for and what a user can do with it. */
export interface BoardSession {
  id: string;
  project: BoardProject;
  status: string;
  /** The status in words, for people. */
  status_text: string;
  current_stage: string;
  /** Why nothing goes on by itself, although no user paused it; null if it does. */
  blocked_by: NeedCode | null;
  /** The iteration that is shown. */
  iteration: number;
  iterations: number;
  until: string;
  process: BoardProcess;
  is_autopilot: boolean;
  pause_on_dissent: boolean;
  continue_until_complete: boolean;
  wait_for_all: boolean;
  full_answers_only: boolean;
  max_output_tokens: number | null;
  seats: Array<BoardSeat>;
  /** What its state allows a user to do. */
  allowed: Array<SessionAction>;
  created_at: string;
  /** When something of it last happened. */
  updated_at: string;
}

/** A stage of the process, also one that has not begun. */
export interface BoardStage {
  slug: string;
  title: string;
  description: string;
  position: number;
  iteration: number;
  status: StageState;
  /** The session stops after it for feedback. */
  waits_for_person_after: boolean;
  /** How many documents it will have, drafts included. */
  planned: number;
  finished: number;
  running: number;
  failed: number;
  /** The seats that take part. */
  seats: Array<number>;
  /** Those of them without which it goes on. */
  lost_seats: Array<number>;
  started_at: string | null;
  completed_at: string | null;
  steps: Array<BoardStep>;
}

/** A step of a stage; a stage without steps has one of its own name. */
export interface BoardStep {
  key: string;
  title: string;
  /** How the inputs are dealt to the calls. */
  strategy: Strategy;
  output_type: string;
  is_intermediate: boolean;
  planned: number;
  finished: number;
}

/** The branch of a chat to go on with. */
export interface BranchRequest {
  /** A message of the branch; its newest end is chosen. */
  message_id: string;
}

/** A browser login: sets the cookie. Pages also send `X-CSRF-Token`. */
export interface BrowserLogin {
  csrf_token: string;
  expires_at: string;
}

export type ChangeEvent = 
  | JobsChangedEvent
  | SessionChangedEvent
  | DocumentChangedEvent
  | MoneyChangedEvent
  | FeedbackChangedEvent
  | ProjectChangedEvent
  | ChatChangedEvent;

/** A chat and its current thread, without rewound messages. */
export interface Chat {
  id: string;
  title: string;
  system_instruction: string;
  created_at: string | null;
  messages: Array<ChatMessage>;
  /** The messages that are not in the thread, if requested. */
  branches?: Array<ChatMessage>;
  /** The question that is being answered, by this server process. */
  pending?: PendingQuestion | null;
}

/** The fields of a chat to change. */
export interface ChatChange {
  title: string;
}

/** A chat was made, renamed, continued or deleted. */
export interface ChatChanged {
  chat_id: string;
  chat: ChatSummary | null;
  /** It was deleted, and the object is null. */
  is_gone?: boolean;
}

/** A chat was made, renamed, continued or deleted. */
export interface ChatChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "chat_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: ChatChanged;
}

/** What a question is expected to cost. */
export interface ChatEstimate {
  input_tokens: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** US dollars, exactly. */
  expected: string;
  /** If every call of the answer is as long as it may be. */
  worst: string;
}

/** One message of a chat. */
export interface ChatMessage {
  id: string;
  /** The message before it; messages with the same one are branches. */
  previous_id: string | null;
  role: string;
  content: string;
  model: string | null;
  usage: ChatUsage | null;
  finish_reason: string | null;
  incomplete: boolean;
  flags: Array<string>;
  /** An answer as HTML that is safe to put into a page, if requested; null for a very long one. */
  html?: string | null;
  created_at: string;
}

/** Creates a project from the messages of a chat. */
export interface ChatProjectRequest {
  name?: string;
  domain?: string;
  /** The messages to use; absent: the whole thread. */
  message_ids?: Array<string> | null;
}

/** The answer to a question. */
export interface ChatReply {
  chat_id: string;
  question_id: string;
  message_id: string;
  model: string;
  content: string;
  finish_reason: string;
  /** The answer was truncated at the output limit. */
  incomplete: boolean;
  flags: Array<string>;
  usage: ChatUsage;
}

/** A question to one model. */
export interface ChatRequest {
  message: string;
  model: string;
  /** The chat to continue; absent: a new chat. */
  chat_id?: string | null;
  /** The system instruction of a new chat. */
  systemInstruction?: string;
  /** A stored system prompt, instead of `systemInstruction`. */
  system_prompt_id?: string | null;
  /** Continue a truncated answer, with up to five calls. */
  continue_until_complete?: boolean;
  max_output_tokens?: number | null;
  /** The message of yours that this one replaces. */
  rewind_from_message_id?: string | null;
  /** Stream the answer as events. */
  stream?: boolean;
}

/** A chat in a list. */
export interface ChatSummary {
  id: string;
  title: string;
  messages: number;
  created_at: string;
}

/** The tokens of all calls that produced an answer. */
export interface ChatUsage {
  input_tokens: number;
  output_tokens: number;
  source: string;
  calls: number;
}

/** A smaller run, with more optional parts left out. */
export interface CheaperRun {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
  /** The `shrink` value of this run. */
  shrink: number;
  left_out: string;
}

/** All stored data of one turn, without its request, which has its own file. */
export interface ChunkRecord {
  id: string;
  turn_index: number;
  storage_path: string;
  finish_reason: string;
  tokens_used_output: number;
  /** The parts of a prompt that was shortened. */
  manifest: Record<string, unknown> | null;
  tenant_id: string;
  session_id: string;
  job_id: string | null;
  root_contribution_id: string;
  stage: string;
  iteration_number: number;
  model_name: string;
  content: string;
  raw_response_storage_path: string;
  mime_type: string;
  size_bytes: number;
  tokens_used_input: number;
  usage_source: string;
  raw_finish_reason: string | null;
  provider_request_id: string | null;
  processing_time_ms: number;
  flags: Array<string>;
  created_at: string;
}

/** A point of a thesis; one that several theses share is listed once. */
export interface Claim {
  id: string;
  seat: number | null;
  stage: string;
  document_id: string;
  block_id: string | null;
  start: number;
  end: number;
  text: string;
  /** Whether only one thesis has it. */
  is_lone: boolean;
  critics: Array<ClaimCritic>;
  /** By stage, in order. */
  fates: Array<ClaimFate>;
  /** What became of it in the document that counts. */
  final: Status;
  /** Whether a critic wants it changed or dropped. */
  is_contested: boolean;
  /** What a person decided about it. */
  ruling?: Ruling | null;
}

/** A critique that takes up a claim. */
export interface ClaimCritic {
  seat: number | null;
  document_id: string;
  /** The block of the document in its HTML. */
  block_id: string | null;
  /** What the critic wants, as far as its words tell. */
  verdict: Verdict;
  /** What the critic says about it. */
  note: string;
  /** What the critic would say instead; empty if it does not say. */
  better: string;
}

/** What the final documents of a stage made of a claim. */
export interface ClaimFate {
  stage: string;
  fate: Status;
  /** The documents that say it, the lead's first. */
  document_ids: Array<string>;
  block_id: string | null;
  /** The words of the first of them; of a refused claim the reason. */
  text: string;
  /** The job that wrote the first of them. */
  job_id: string | null;
}

/** The claims of an iteration's theses. */
export interface Claims {
  session_id: string;
  iteration: number;
  /** Ask again in a while if it is `computing`. */
  state: ClaimsState;
  /** How it was found. */
  method: string;
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  claims: Array<Claim>;
  coverage: Array<SeatClaims>;
}

/** Whether the claims are known. */
export type ClaimsState = "none" | "computing" | "ready";

/** A sentence of the request that binds, and the requirements that say the same. */
export interface ConstraintFate {
  constraint: Place;
  requirements: Array<string>;
}

/** One version of a contribution, with its text and origin. */
export interface Contribution {
  /** Yours; null if you gave none. */
  my_rating?: number | null;
  /** How many users have rated it. */
  rating_count?: number;
  /** Rounded to two decimals. */
  rating_mean?: number | null;
  flags: Array<string>;
  id: string;
  session_id: string;
  job_id: string | null;
  model: string;
  /** The number of its model among the session's models, from 1. */
  seat: number | null;
  stage: string;
  iteration: number;
  type: string;
  path: string;
  version: number;
  /** The id of the first version. */
  original_id: string;
  is_latest: boolean;
  is_by_user: boolean;
  is_incomplete: boolean;
  is_intermediate: boolean;
  is_stale: boolean;
  /** The contribution that it critiques. */
  about_id: string | null;
  /** The version of it that was read; null if it was not read, or unknown. */
  about_version_id: string | null;
  /** The contributions it was written from. */
  source_ids: Array<string>;
  /** The thesis that it descends from. */
  source_group: string | null;
  /** The same, with the versions that were read. */
  read: Array<ReadVersion>;
  /** A hash of what the model was asked; null for a version by a user. */
  words_hash: string | null;
  input_tokens: number | null;
  output_tokens: number | null;
  finish_reason: string | null;
  created_at: string;
  content: string;
}

/** An answer was cut off or lacks something; it is saved as a chunk, and another turn is due. */
export interface ContributionContinued {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  projectId: string;
  job_id: string;
  modelId: string;
  /** The number of the turn that is due. */
  continuationNumber: number;
  reason?: string;
  chunk: SavedChunk;
}

/** An answer was cut off or lacks something; it is saved as a chunk, and another turn is due. */
export interface ContributionContinuedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_continued";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: ContributionContinued;
}

/** The newest version of a contribution in the list of its session. */
export interface ContributionLine {
  id: string;
  model_name: string;
  stage: string;
  iteration_number: number;
  contribution_type: string;
  storage_path: string;
  is_incomplete: boolean;
  is_intermediate: boolean;
  is_stale: boolean;
  flags: Array<string>;
  edit_version: number;
  tokens_used_input: number | null;
  tokens_used_output: number | null;
  finish_reason: string | null;
  created_at: string;
  job_id: string | null;
  model_index: number | null;
  target_contribution_id: string | null;
  source_contribution_ids: Array<string>;
  source_group: string | null;
  size_bytes: number;
  read_versions: Array<ReadVersion>;
}

/** A contribution was written by a model or by a user. */
export interface ContributionReceived {
  sessionId: string;
  /** Null for an edit by a user. */
  job_id: string | null;
  is_continuing: boolean;
  contribution: ReceivedContribution;
  /** The same as a board shows it now; absent where no board is. */
  document?: BoardDocument | null;
}

/** A contribution was written by a model or by a user. */
export interface ContributionReceivedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "dialectic_contribution_received";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: ContributionReceived;
}

/** All stored data of one version of a contribution, with its turns. */
export interface ContributionRecord {
  id: string;
  model_name: string;
  stage: string;
  iteration_number: number;
  contribution_type: string;
  storage_path: string;
  is_incomplete: boolean;
  is_intermediate: boolean;
  is_stale: boolean;
  flags: Array<string>;
  edit_version: number;
  tokens_used_input: number | null;
  tokens_used_output: number | null;
  finish_reason: string | null;
  created_at: string;
  session_id: string;
  project_id: string;
  job_id: string | null;
  model_id: string | null;
  model_index: number;
  source_group: string | null;
  target_contribution_id: string | null;
  rank: number;
  origin: number;
  source_contribution_ids: Array<string>;
  read_version_ids: Array<string>;
  read_versions: Array<ReadVersion>;
  target_version_id: string | null;
  words_hash: string | null;
  is_latest_edit: boolean;
  content: string;
  raw_response_storage_path: string | null;
  prompt_template_name: string | null;
  usage_source: string | null;
  original_model_contribution_id: string | null;
  user_id: string | null;
  manifest: Record<string, unknown> | null;
  /** What its job has read. */
  results: Record<string, unknown> | null;
  chunks?: Array<TurnSummary>;
}

/** A contribution in a list, in its newest version. */
export interface ContributionSummary {
  /** Yours; null if you gave none. */
  my_rating?: number | null;
  /** How many users have rated it. */
  rating_count?: number;
  /** Rounded to two decimals. */
  rating_mean?: number | null;
  flags: Array<string>;
  id: string;
  session_id: string;
  /** The job that wrote it; null for an edit by a user. */
  job_id: string | null;
  model: string;
  /** The number of its model among the session's models, from 1. */
  seat: number | null;
  stage: string;
  iteration: number;
  type: string;
  /** The contribution that it critiques. */
  about_id: string | null;
  /** The contributions it was written from. */
  source_ids: Array<string>;
  /** The thesis that it descends from. */
  source_group: string | null;
  path: string;
  version: number;
  /** The answer was truncated and will not be continued. */
  is_incomplete: boolean;
  is_intermediate: boolean;
  /** One of its sources has a newer version. */
  is_stale: boolean;
  size_bytes: number;
  input_tokens: number | null;
  output_tokens: number | null;
  finish_reason: string | null;
  created_at: string;
  /** What it was written from, in the versions that were read. */
  read: Array<ReadVersion>;
}

/** One of the versions of a contribution. */
export interface ContributionVersion {
  id: string;
  version: number;
  is_latest: boolean;
  is_by_user: boolean;
  /** The user who wrote it; null for a model's version. */
  by: Author | null;
  model: string;
  size_bytes: number;
  created_at: string;
}

/** The cost of the calls of one kind to one seat's model in one stage. */
export interface Cost {
  stage: string | null;
  model: string;
  /** The number of the seat, from 1. */
  seat?: number | null;
  purpose: string;
  is_play: boolean;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  /** US dollars, exactly. */
  charged: string;
  /** US dollars, exactly. */
  held: string;
}

/** A choice of models under a name, for new sessions. */
export interface Council {
  name: string;
  models: Array<string>;
}

/** What became of every point, objection, requirement and figure of an iteration. */
export interface Coverage {
  session_id: string;
  iteration: number;
  /** How it was found. */
  method: string;
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  /** The document it is judged by; null if none exists yet. */
  of: Place | null;
  theses: Array<ThesisCoverage>;
  points: Array<PointFate>;
  objections: Array<ObjectionFate>;
  requirements: Array<RequirementFate>;
  steps: Array<StepFate>;
  constraints: Array<ConstraintFate>;
  figures: Array<FigureOrigin>;
  unread: number;
}

/** The new jobs; workers will run them. */
export interface CreatedJobs {
  job_ids: Array<string>;
}

/** A section of one text or of both. */
export interface DiffSection {
  /** Null for the text before the first heading. */
  heading: string | null;
  /** 0 for the text before the first heading. */
  level: number;
  state: SectionState;
  /** `same` and `add` together are the newer text, `same` and `remove` the older. */
  spans: Array<DiffSpan>;
  /** Comparing all its words would take too long: some passages are shown whole. */
  is_coarse: boolean;
}

/** A passage that is in both texts, or in one of them. */
export interface DiffSpan {
  op: Op;
  text: string;
}

/** How many words differ. */
export interface DiffWords {
  added: number;
  removed: number;
}

/** A subject on which documents of one stage differ. */
export interface Dissent {
  id: string;
  iteration: number;
  stage: string;
  kind: DissentKind;
  subject: string;
  /** From 0 to 1: the worth of its words, and how even it is. */
  weight: number;
  status: DissentStatus;
  positions: Array<DissentPosition>;
  /** What a person decided. */
  ruling?: Ruling | null;
  /** Whether the newest document follows the ruling; null before. */
  obeyed?: Obedience | null;
}

/** How documents differ. */
export type DissentKind = "figure" | "polarity" | "choice" | "split" | "declared";

/** What some documents say about the subject. */
export interface DissentPosition {
  id: string;
  says: string;
  /** Who says it. Models are never told. */
  seats: Array<number>;
  /** Of a `split`: whether these seats took or refused the objection. */
  answer?: Answer | null;
  places: Array<Place>;
}

/** A decision about a dissent: for one of its positions, or in your own words. */
export interface DissentRulingRequest {
  position_id?: string | null;
  text?: string;
  /** The ruling of another user that this one replaces. */
  replaces?: string | null;
}

/** Where a dissent stands. */
export type DissentStatus = "open" | "ruled" | "settled";

/** What the documents of an iteration do not agree on, the weightiest first. */
export interface Dissents {
  session_id: string;
  iteration: number;
  /** Ask again in a while if it is `computing`. */
  state: ClaimsState;
  /** How it was found. */
  method: string;
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  dissents: Array<Dissent>;
  /** How many lighter ones are not listed. */
  left_out?: number;
}

/** A document or a resource, with its text. */
export interface Document {
  id: string;
  project_id: string;
  session_id: string | null;
  kind: string;
  /** The process's key for this document of the stage. */
  document_key: string | null;
  stage: string | null;
  iteration: number | null;
  /** The path in storage and in an export. */
  path: string;
  mime_type: string;
  size_bytes: number;
  /** The contribution it was extracted from. */
  contribution_id: string | null;
  created_at: string;
  content: string;
}

/** A document was saved, edited or rated, or is stale. Drafts are told by their jobs. */
export interface DocumentChanged {
  session_id: string;
  document: BoardDocument;
}

/** A document was saved, edited or rated, or is stale. Drafts are told by their jobs. */
export interface DocumentChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "document_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: DocumentChanged;
}

/** What changed from one contribution to another, or from one version to another. */
export interface DocumentDiff {
  before_id: string;
  after_id: string;
  sections: Array<DiffSection>;
  words: DiffWords;
}

/** A contribution lacks promised documents, is incomplete or repeats one of its inputs. */
export interface DocumentLacking {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  contribution_id: string;
  model_name: string;
  /** The keys of the promised documents. */
  missing: Array<string>;
  is_incomplete: boolean;
  is_copy: boolean;
}

/** A contribution lacks promised documents, is incomplete or repeats one of its inputs. */
export interface DocumentLackingEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_documents_missing";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: DocumentLacking;
}

/** A promised document, extracted from a document. */
export interface DocumentPart {
  key: string;
  id: string;
  title: string;
}

/** Names documents of a session. */
export interface DocumentsRequest {
  /** Any version of each; all that need it if absent. */
  document_ids?: Array<string> | null;
}

/**
 * A piece of an answer that is still being written, for those who asked for drafts.
 *
 * It has no id: drafts are not stored, not resumed, and some may be missing.
 */
export interface Draft {
  session_id: string;
  job_id: string;
  /** A new attempt begins the text again. */
  attempt: number;
  /** Which turn of the document it is, from 0. */
  turn: number;
  /** What the call does. A new phase comes without text. */
  phase: string;
  /** Where the piece begins in the text of its turn, in Unicode characters. If it is beyond what you have, read the whole draft. */
  at: number;
  /** As the provider sent it: text, never HTML. */
  text: string;
  /** The words of the turn so far. */
  words: number;
}

/** An estimated duration. */
export interface Duration {
  expected_s?: number;
  worst_s?: number;
}

/** The new text of a contribution. */
export interface EditRequest {
  content: string;
}

/** Adds an endpoint that only this tenant can use. The tenant pays its provider itself. */
export interface EndpointRequest {
  /** Its models are called `@NAME/model`. */
  name: string;
  /** The protocol it speaks. */
  kind: WireFormat;
  /** A public https address, or one that the operator allows. */
  base_url: string;
  /** Stored encrypted and never shown again; absent if it needs none. */
  api_key?: string | null;
  models: Array<OwnModel>;
  max_concurrency?: number | null;
  requests_per_minute?: number | null;
  tokens_per_minute?: number | null;
  /** Replace an endpoint of this name. */
  replace?: boolean;
}

/** The answer of a real, short call. */
export interface EndpointTest {
  model: string;
  answer: string;
  finish_reason: string;
  elapsed_ms: number;
  input_tokens: number;
  output_tokens: number;
  usage_source: string;
}

/** Which model to call for the test. */
export interface EndpointTestRequest {
  /** `@NAME/model`; the first if absent. */
  model?: string | null;
}

/** Why a job failed, pauses or is retried. */
export interface EventError {
  code: string;
  message: string;
  remedy: ProblemRemedy | null;
}

/** A part of an event; clients keep fields that they do not know. */
export type EventPart = Record<string, unknown>;

/** What a user said about a stage or a contribution, or a rating. */
export interface Feedback {
  id: string;
  session_id: string;
  stage: string;
  iteration: number;
  kind: FeedbackKind;
  /** The first version of the contribution that it is about. */
  contribution_id: string | null;
  text: string;
  rating: number | null;
  by: Author;
  /** The claim or dissent that a ruling decides. */
  subject_id: string | null;
  /** What is said there. */
  subject: string | null;
  verdict: RulingVerdict | null;
  /** Since when a ruling no longer counts. */
  withdrawn_at: string | null;
  /** What you may do with it. */
  allowed: Array<FeedbackAction>;
  created_at: string;
  /** Null if it was never changed. */
  updated_at: string | null;
}

/** What the caller may do with an entry. */
export type FeedbackAction = "change" | "remove";

/** A new text for feedback, or a new number for a rating. */
export interface FeedbackChange {
  text?: string | null;
  rating?: number | null;
}

/** A user said something, or took it back. */
export interface FeedbackChanged {
  session_id: string | null;
  feedback_id: string;
  feedback: BoardFeedback | null;
  /** It was deleted, and the object is null. */
  is_gone?: boolean;
}

/** A user said something, or took it back. */
export interface FeedbackChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "feedback_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: FeedbackChanged;
}

/** What an entry is about, and whether it has words or a number. */
export type FeedbackKind = "stage" | "response" | "rating" | "ruling";

/** Your feedback on a stage or on one of its contributions. */
export interface FeedbackRequest {
  stage: string;
  text: string;
  contribution_id?: string | null;
}

/** One invalid field of a request. */
export interface FieldError {
  /** The field: `/body/models/0`, `/query/limit`. */
  path: string;
  message: string;
  code: string;
}

/** The figures of a document, each with the text that has it first. */
export interface FigureLedger {
  session_id: string;
  iteration: number;
  /** How it was found. */
  method: string;
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  /** The document; null if none exists yet. */
  of: Place | null;
  figures: Array<FigureOrigin>;
  /** How many of them no text has that was given or argued. */
  made_up: number;
  /** How many have another figure in their place in a source. */
  differing: number;
}

/** A figure of the document, and where it was said first. */
export interface FigureOrigin {
  figure: string;
  place: Place;
  /** The passage that has it first, as far back as it is found. */
  first: Place;
  /** No text that was given or argued has it. */
  is_made_up: boolean;
  /** The step that has it first, if so. */
  made_up_at?: string;
  /** Other figures in its place in what was read. */
  others: Array<Place>;
}

/**
 * The estimate for some calls.
 *
 * `expected` and `worst` are the planned calls, one turn each; in the worst case every document
 * is as long as its output limit. `further` are the additional turns expected because answers are
 * longer than the limit. `continuations` and `retries` are the most that the settings allow in
 * addition to the worst case.
 */
export interface Figures {
  expected?: Amount;
  worst?: Amount;
  further?: Amount;
  continuations?: Amount;
  retries?: Amount;
}

/** The object that the id prefix matched. */
export interface FoundId {
  id: string;
}

/** Whether calls to a model pass at present. */
export type HealthState = "ok" | "busy" | "failing" | "key_refused" | "unknown";

/** Something that was found. */
export interface Hit {
  kind: SearchKind;
  /** Of a passage: the id of its document. */
  id: string;
  title: string;
  /** The text around the first word that was found. */
  excerpt: string;
  /** The page that shows it. */
  path: string;
  /** Best first; comparable within one response. */
  score: number;
}

/** What was found, best first. */
export interface Hits {
  items: Array<Hit>;
}

/** What the points of a section are: `dialectic.provenance` traces and counts them by it. */
export type Holds = 
  | "claim"
  | "objection"
  | "requirement"
  | "taken"
  | "refused"
  | "decision"
  | "question"
  | "step"
  | "aside";

/** A point before and after a step that changed it. */
export interface Hop {
  before: Place;
  after: Place;
}

/** An imported project. */
export interface ImportedProject {
  project_id: string;
  name: string;
  slug: string;
  session_ids: Array<string>;
  files: number;
  /** The project got new ids because its own were already in use. */
  is_copy: boolean;
}

/** A new link. Its path is shown once. */
export interface IssuedShare {
  id: string;
  session_id: string;
  has_pass_phrase: boolean;
  has_drafts: boolean;
  has_names: boolean;
  by: Author;
  created_at: string;
  expires_at: string;
  /** The page of the report, on this server. */
  path: string;
}

/** A new token. Its secret is shown only this once. */
export interface IssuedToken {
  id: string;
  name: string;
  scopes: Array<Scope>;
  expires_at: string;
  token: string;
}

/** A unit of work that a worker runs. */
export interface Job {
  id: string;
  parent_id: string | null;
  /** The job that must end before this one runs. */
  prerequisite_id: string | null;
  type: string;
  stage: string;
  /** The step of its stage; null for a plan job. */
  step: string | null;
  iteration: number;
  /** The contribution that its document is about. */
  target_id: string | null;
  /** The type of contribution that it writes. */
  output: string | null;
  /** The contribution that it has written. */
  contribution_id: string | null;
  status: string;
  status_reason: string | null;
  model: string | null;
  /** The number of its model among the session's models, from 1. */
  seat: number | null;
  attempts: number;
  retries: number;
  errors: Array<JobError>;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
}

/** The text so far of a running job's answer. Empty until its worker has sent some. */
export interface JobDraft {
  job_id: string;
  session_id: string;
  attempt: number;
  /** Which turn of the document it is, from 0. */
  turn: number;
  /** Where the text begins in that of the turn: always 0. */
  at: number;
  /** As the provider sent it: text, never HTML. */
  text: string;
  words: number;
  /** What the call does: `preparing`, `waiting_for_endpoint`, `waiting_for_money`, `calling`, `writing` or `saving`; null if its worker has not reported it yet. */
  phase: string | null;
  first_token_at: string | null;
  /** Null if its worker has not reported yet. */
  updated_at: string | null;
}

/** A failed attempt of a job; with a `remedy` if one is known. */
export interface JobError {
  attempt: number;
  code: string;
  message: string;
}

/** A job failed for good. */
export interface JobFailed {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  error: EventError;
}

/** A job failed for good. */
export interface JobFailedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_failed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: JobFailed;
}

/** What a job does: one model call, shortening for one, or planning calls. */
export type JobKind = "call" | "combine" | "plan";

/** A job waits for a user. */
export interface JobPaused {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  error: EventError;
}

/** A job waits for a user. */
export interface JobPausedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_paused";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: JobPaused;
}

/** What a job is doing or waiting for. */
export type JobPhase = 
  | "queued"
  | "preparing"
  | "waiting_for_endpoint"
  | "waiting_for_money"
  | "calling"
  | "writing"
  | "saving";

/** All stored data of a job that people see. */
export interface JobRecord {
  id: string;
  parent_job_id: string | null;
  prerequisite_job_id: string | null;
  job_type: string | null;
  stage_slug: string;
  step_name: string | null;
  iteration_number: number;
  target_contribution_id: string | null;
  output_type: string | null;
  contribution_id: string | null;
  status: JobStatus;
  status_reason: string | null;
  model_name: string | null;
  model_index: number | null;
  attempt_count: number;
  retry_count: number;
  error_details: Array<JobError>;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
}

/** A job failed and will be retried. */
export interface JobRetrying {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  error: EventError;
  /** When the next attempt starts. */
  retry_in_s?: number | null;
}

/** A job failed and will be retried. */
export interface JobRetryingEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_retrying";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: JobRetrying;
}

/** The status of a job; the comments of the SQL type explain each. */
export type JobStatus = 
  | "pending"
  | "processing"
  | "waiting_for_children"
  | "pending_next_step"
  | "waiting_for_prerequisite"
  | "pending_continuation"
  | "retrying"
  | "paused"
  | "completed"
  | "failed"
  | "retry_loop_failed"
  | "cancelled";

/** Calls of a session were planned, began, wait, or ended; with all stages of the iteration. */
export interface JobsChanged {
  session_id: string;
  jobs: Array<BoardJob>;
  stages: Array<BoardStage>;
}

/** Calls of a session were planned, began, wait, or ended; with all stages of the iteration. */
export interface JobsChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "jobs_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: JobsChanged;
}

export type JsonValue = unknown;

/** Why a stale document is left as it is. */
export type Kept = "edited" | "imported";

/** The kinds of object that can be found by an id prefix. */
export type Kind = "project" | "session" | "contribution" | "chunk" | "chat";

export type KnownEvent = 
  | StageStartedEvent
  | StageAdvancedEvent
  | ContributionReceivedEvent
  | ContributionContinuedEvent
  | AnswerLimitedEvent
  | DocumentLackingEvent
  | PlanTakenOverEvent
  | StageEndedEvent
  | JobRetryingEvent
  | JobFailedEvent
  | JobPausedEvent
  | PlanFileKeptEvent
  | SessionPausedEvent
  | SessionResumedEvent
  | SessionCancelledEvent
  | SeatChangedEvent;

/** A model, its prices, and whether this server can call it. */
export interface KnownModel {
  name: string;
  /** Its name without the provider. */
  label: string;
  /** The endpoint that serves it. */
  provider: string;
  state: string;
  is_usable: boolean;
  /** The variable that must be set to use it. */
  missing: string | null;
  note: string;
  origin: string;
  /** Whether it costs play money. */
  is_play: boolean;
  health: ModelHealth;
  /** Whether it has written for one of your sessions. */
  used_by_you: boolean;
  /** Its seats in a run that names no models. */
  default_seats?: Array<number>;
  /** The date of the facts, unless they are declared. */
  facts_of: string | null;
  context_window_tokens: number;
  max_input_tokens: number;
  max_output_tokens: number;
  input_usd_per_million: number | string;
  output_usd_per_million: number | string;
  tokenizer: string;
  is_reasoning: boolean;
  supports_system_prompt: boolean;
}

/** The number of documents whose lengths the estimate is based on. */
export interface LearnedFrom {
  /** Documents of this session. */
  here: number;
  /** Documents of earlier sessions. */
  earlier: number;
}

/** The calls of one step by one model. */
export interface Line {
  stage_slug: string;
  step_name: string;
  output_type: string;
  model_index: number;
  model_name: string;
  is_play: boolean;
  figures: Figures;
  too_long?: number;
  answer_limit_tokens?: number;
}

/** A model that an endpoint lists, but that is not configured. */
export interface ListedModel {
  name: string;
  /** Its name without the provider. */
  label: string;
  /** The endpoint that serves it. */
  provider: string;
  state: string;
  is_usable: boolean;
  /** The variable that must be set to use it. */
  missing: string | null;
  note: string;
  origin: string;
  /** Whether it costs play money. */
  is_play: boolean;
  health: ModelHealth;
  /** Whether it has written for one of your sessions. */
  used_by_you: boolean;
  /** Its seats in a run that names no models. */
  default_seats?: Array<number>;
  /** The section of config.toml that configures it. */
  config: string;
}

/** Something that waits for a person, and in which session. */
export interface ListedNeed {
  session_id: string;
  project_id: string;
  project_name: string;
  code: string;
  stage: string;
  stage_title: string;
  /** The calls that wait for it, or have failed. */
  jobs: Array<string>;
  since: string | null;
}

/** Who the token acts for, and what every page shows. */
export interface Me {
  user_id: string;
  name: string;
  display_name: string;
  tenant_id: string;
  wallet_id: string;
  scopes: Array<string>;
  token_expires_at: string | null;
  tenants: Array<Tenant>;
  wallet: Wallet;
  preferences: Preferences;
  /** How many messages to you are unread. */
  unread: number;
  /** Where a stream of events continues after this response. */
  cursor: string;
  /** What a page of this browser session sends as `X-CSRF-Token`; null without one. */
  csrf_token: string | null;
}

/** A user in the tenant. */
export interface Member {
  user_id: string;
  name: string;
  role: Role;
  created_at: string;
}

/** Adds a user to the tenant, or changes their role. */
export interface MemberRequest {
  name: string;
  role?: Role;
}

/** How a requirement is covered. */
export type Met = "by_id" | "by_words" | "not";

/** A seat that was asked and whose work is not, or not all, in the document. */
export interface MissingSeat {
  seat: number;
  model: string;
  /** The stages that lack its work; empty if all do. */
  stages: Array<string>;
  reason: "failed" | "dropped" | "not_read";
}

/** What is known of the calls to a model. */
export interface ModelHealth {
  state: HealthState;
  /** When calls are tried again, if they wait. */
  until: string | null;
  /** The median duration of your latest documents by it. */
  p50_ms: number | null;
}

/** What a short question to a model showed. No wallet is charged for it. */
export interface ModelTest {
  model: string;
  /** False if a later try will fail too. */
  is_usable: boolean;
  /** False if it needs no question, or answered one in the last ten minutes. */
  was_asked: boolean;
  elapsed_ms: number;
  /** What the provider may charge its payer for a question. */
  cost_max: string;
  error: ModelTestError | null;
}

/** Why a model has not answered. */
export interface ModelTestError {
  code: string;
  reason: string | null;
  message: string;
  remedy: ProblemRemedy | null;
}

/** What a model brought, over several sessions. */
export interface ModelWorth {
  /** Points that no other thesis has. */
  points: number;
  /** Those of them that the final document says. */
  kept: number;
  objections: number;
  /** Objections that an editor took. */
  objections_taken: number;
  /** Refusals of its that a person overruled. */
  overruled: number;
  /** Points that its documents read and do not have. */
  omissions: number;
  calls: number;
  /** US dollars, exactly. */
  charged: string;
  /** In play money, of offline models. */
  charged_play: string;
  /** How long its documents took to write. */
  minutes: number;
  /** Null if nothing was charged. */
  kept_per_dollar: number | null;
  kept_per_minute: number | null;
  model: string;
  sessions: number;
}

/** What each model brought to your sessions. It advises; nothing is decided by it. */
export interface ModelsWorth {
  since: string | null;
  /** How it was found. */
  method: string;
  /** How many sessions have a final document and were read. */
  sessions: number;
  /** Sessions that are being computed: ask again in a while. */
  waiting: number;
  /** Older sessions that were not read. */
  left_out: number;
  /** Those that kept most points first. */
  models: Array<ModelWorth>;
}

/** A wallet's balance of one kind of money. */
export interface Money {
  /** US dollars, exactly. */
  balance: string;
  /** Reserved for calls in flight. */
  held: string;
  /** US dollars, exactly. */
  available: string;
}

/** A session or your wallet has other amounts; the other field is null. */
export interface MoneyChanged {
  session_id?: string | null;
  money?: SessionMoney | null;
  wallet?: Wallet | null;
}

/** A session or your wallet has other amounts; the other field is null. */
export interface MoneyChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "money_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: MoneyChanged;
}

/** One way out of a need. */
export interface NeedAction {
  do: NeedStep;
  /** The new budget, or what to add. */
  amount?: string | null;
  /** What it is expected to cost. */
  price?: string | null;
  seat?: number | null;
  model?: string | null;
  setting?: string | null;
}

/** What a session needs from a person. */
export type NeedCode = 
  | "feedback"
  | "funds"
  | "budget"
  | "approval"
  | "key"
  | "endpoint"
  | "failure"
  | "stale"
  | "incomplete";

/** The numbers of a reason or a need. */
export interface NeedFigures {
  /** What one call may cost at most. */
  needed?: string | null;
  /** What is left of the limit. */
  left?: string | null;
  /** Which limit. */
  of?: "budget" | "wallet" | null;
  /** The budget, if it is the limit. */
  limit?: string | null;
  is_play?: boolean;
  /** How many documents or calls. */
  count?: number | null;
}

/** What waits for a person in all sessions, the longest first. */
export interface NeedList {
  items: Array<ListedNeed>;
}

/** What a person can do about a need. */
export type NeedStep = 
  | "start_next"
  | "raise_budget"
  | "top_up"
  | "approve_spend"
  | "configure"
  | "resume"
  | "retry"
  | "replace_seat"
  | "drop_seat"
  | "regenerate_stale"
  | "regenerate";

/** A notification to a user. */
export interface Notification {
  id: number;
  type: string;
  title: string | null;
  /** What happened, and what to do. */
  message: string | null;
  /** What it is about, below the address of the API. */
  link_path: string | null;
  session_id: string | null;
  /** The next step, if there is one. */
  remedy: ProblemRemedy | null;
  data: Record<string, unknown>;
  read_at: string | null;
  /** When its cause ended. */
  resolved_at: string | null;
  created_at: string;
}

/** A message to a user. */
export interface NotificationEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: string;
  created_at: string;
  session_id: string | null;
  is_internal_event: false;
  data: EventPart;
  notification_id: number;
  title: string | null;
  message: string | null;
  link_path: string | null;
  remedy?: ProblemRemedy | null;
}

/** One page of your notifications. */
export interface NotificationPage {
  items: Array<Notification>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
  /** How many you have not read, on all pages. */
  unread_count: number;
}

/** Whether a document follows a ruling, as far as its words tell. */
export type Obedience = "kept" | "broken" | "unclear";

/** An objection of a critique, and what the editors did with it. */
export interface ObjectionFate {
  objection: Place;
  number: string;
  answer: Answer;
  taken_by: Array<string>;
  refused: Array<Refused>;
}

/** What happened to a passage. */
export type Op = "same" | "add" | "remove";

/** The new organisation. */
export interface Organization {
  id: string;
}

/** Creates an organisation. */
export interface OrganizationRequest {
  name: string;
}

/** An endpoint that the tenant added, without its key. */
export interface OwnEndpoint {
  name: string;
  kind: WireFormat;
  base_url: string;
  has_key: boolean;
  models: Array<string>;
  max_concurrency: number | null;
  requests_per_minute: number | null;
  tokens_per_minute: number | null;
  created_at: string;
  /** Why it cannot be called. */
  problem: string | null;
}

/** A model of an endpoint. Its window and limits decide how prompts are cut to size. */
export interface OwnModel {
  /** The provider's name. */
  name: string;
  context_window_tokens: number;
  max_output_tokens: number;
  /** The window if absent. */
  max_input_tokens?: number | null;
  /** How its tokens are counted. */
  tokenizer?: string;
  supports_system_prompt?: boolean;
  /** It may send nothing for minutes. */
  is_reasoning?: boolean;
}

export interface Page_ChatSummary_ {
  items: Array<ChatSummary>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_ContributionSummary_ {
  items: Array<ContributionSummary>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_ContributionVersion_ {
  items: Array<ContributionVersion>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Cost_ {
  items: Array<Cost>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Feedback_ {
  items: Array<Feedback>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Job_ {
  items: Array<Job>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Member_ {
  items: Array<Member>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_OwnEndpoint_ {
  items: Array<OwnEndpoint>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_PlanFile_ {
  items: Array<PlanFile>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_ProcessSummary_ {
  items: Array<ProcessSummary>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_ProjectFile_ {
  items: Array<ProjectFile>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_ProjectLine_ {
  items: Array<ProjectLine>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Resource_ {
  items: Array<Resource>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_SessionLine_ {
  items: Array<SessionLine>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Share_ {
  items: Array<Share>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Spending_ {
  items: Array<Spending>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_SystemPrompt_ {
  items: Array<SystemPrompt>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Token_ {
  items: Array<Token>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Transaction_ {
  items: Array<Transaction>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

export interface Page_Union_KnownModel__ListedModel__ {
  items: Array<KnownModel | ListedModel>;
  /** Send it as `cursor` to get the next page; null on the last page. */
  next_cursor: string | null;
  /** Continue the event stream here: send it to it as `after`. Null if the list is not followed. */
  cursor?: string | null;
}

/** A question whose answer is being written by this server process. */
export interface PendingQuestion {
  question: string;
  model: string;
  since: string;
}

/** Where a session is within its stage; the comments of the SQL type explain each. */
export type Phase = 
  | "pending"
  | "generating"
  | "stage_complete"
  | "iteration_complete"
  | "failed"
  | "paused"
  | "cancelled";

/** A passage of a text. */
export interface Place {
  kind: SourceKind;
  /** The first version of a contribution, or another text. */
  id: string | null;
  /** The version that was compared. */
  version_id: string | null;
  /** What prompts call it, such as `Thesis B`. */
  label: string;
  model: string;
  seat: number | null;
  stage: string;
  step: string;
  type: string;
  start: number;
  end: number;
  /** The words of the passage. */
  text: string;
}

/** A file in `Pending/`, `Current/` or `Complete/`. It belongs to the person who works on it. */
export interface PlanFile {
  /** The path in storage and in an export. */
  path: string;
  /** The folder it is in. */
  status: WorkStatus;
  /** Its name in that folder. */
  name: string;
  state: PlanFileState;
  /** The file whose new version it is: a person had changed, moved or deleted that. */
  replaces: string | null;
  size_bytes: number;
  /** For `If-Match`; changes with its content. */
  etag: string;
  /** Its first heading, else its name. */
  title: string;
  /** Its task items, in order. */
  steps: Array<PlanStep>;
}

/** The new content of a file in a work folder. */
export interface PlanFileContent {
  content: string;
}

/** The plan changed, but a person had worked on a file of it: its new version is next to it. */
export interface PlanFileKept {
  sessionId: string;
  projectId: string;
  /** The person's file, or where it was. It is left alone. */
  kept_path: string;
  /** The file's new version. */
  new_path: string;
  /** `moved` also if it was deleted. */
  reason: "changed" | "moved";
}

/** The plan changed, but a person had worked on a file of it: its new version is next to it. */
export interface PlanFileKeptEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "plan_file_kept";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: PlanFileKept;
}

/** The folder that a file of the plan moves to. */
export interface PlanFileMove {
  status: WorkStatus;
}

/** Whose text a file in a work folder holds. */
export type PlanFileState = "as_written" | "changed" | "superseded" | "own";

/** Ticks of steps of a file of the plan, by number. */
export interface PlanFileTicks {
  steps: Record<string, boolean>;
}

/** Whose checklist a complete stage has put into Pending/. */
export interface PlanSource {
  stage_slug: string;
  iteration_number: number;
  /** Null if no model wrote a checklist. */
  model_name: string | null;
  is_lead: boolean;
}

/** A step of a file of the plan: a task item of its text. */
export interface PlanStep {
  /** Its place among the steps of the file, from 1. */
  number: number;
  text: string;
  is_done: boolean;
}

/** A file of the agreed plan, as it was written; a person may have changed or moved it. */
export interface PlanStepFile {
  path: string;
  title: string;
  steps: number;
  document_id: string | null;
}

/** The lead wrote no checklist; that of another model fills Pending/. */
export interface PlanTakenOver {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  job_id: string;
  /** The contribution with the checklist. */
  contribution_id: string;
  model_name: string;
}

/** The lead wrote no checklist; that of another model fills Pending/. */
export interface PlanTakenOverEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "plan_taken_from_another_model";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: PlanTakenOver;
}

/** What became of a point of a thesis. */
export interface PointFate {
  point: Place;
  status: Status;
  /** Whether only one thesis has it. */
  is_lone: boolean;
  /** Where the document says the same. */
  found: Place | null;
  /** The step that changed it. */
  changed: Hop | null;
  refused: Refused | null;
  /** The last step that has it, of a dropped point. */
  last_seen: string;
  /** The first step that does not have it. */
  lost_at: string;
  /** The documents that read it and do not have it. */
  lost_by: Array<string>;
}

/** A passage that says what another says. */
export interface PointSource {
  kind: SourceKind;
  /** The first version of a contribution, or another text. */
  id: string | null;
  /** The version that was compared. */
  version_id: string | null;
  /** What prompts call it, such as `Thesis B`. */
  label: string;
  model: string;
  seat: number | null;
  stage: string;
  step: string;
  type: string;
  start: number;
  end: number;
  /** The words of the passage. */
  text: string;
  /** How much two texts say the same, from 0 to 1. */
  score: number;
  /** Whether the score is high; otherwise it is only likely. */
  is_sure: boolean;
  /** The strongest change on the way. */
  relation: Relation;
  /** The contributions in between, nearest first. */
  via: Array<string>;
}

/** What a critique says of the points of its subject. */
export interface Points {
  keep: number;
  change: number;
}

/** How a person wants the pages of this account. */
export interface Preferences {
  display_name?: string;
  theme?: string;
  text_size?: string;
  motion?: string;
  keys?: boolean;
  language?: string | null;
  notifications?: Record<string, Told>;
  councils?: Array<Council>;
}

/** The preferences to change; absent ones stay, and null restores the default. */
export interface PreferencesChange {
  /** How pages call you. */
  display_name?: string | null;
  theme?: "system" | "light" | "dark" | null;
  text_size?: "small" | "normal" | "large" | "larger" | null;
  motion?: "system" | "less" | null;
  /** Whether single keys act on pages. */
  keys?: boolean | null;
  /** Of dates and numbers; the browser's by default. */
  language?: string | null;
  /** How you are told, by the type of message. */
  notifications?: Record<string, Told> | null;
  councils?: Array<Council> | null;
}

/**
 * What some calls cost.
 *
 * The amounts are real money; play money if none of the calls costs real money.
 */
export interface Price {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
}

/** An error response (RFC 9457). */
export interface Problem {
  /** A stable URN that names the error. */
  type: string;
  title: string;
  status: number;
  detail: string;
  /** The stable error code for programs. */
  code: string;
  /** The path of the request. */
  instance: string;
  /** Also in the X-Request-ID header and in the logs. */
  request_id: string;
  /** Distinguishes the cases of one code. */
  reason?: string | null;
  /** The next step, if known. */
  remedy?: ProblemRemedy | null;
  /** The newest version, if a contribution has changed (412). */
  current?: ContributionVersion | null;
  /** The invalid fields, if validation failed. */
  errors?: Array<FieldError>;
}

/** The next step, for programs: an action and its parameters. */
export interface ProblemRemedy {
  /** A stable name; new ones may be added. */
  action: RemedyAction;
  /** The session to act on. */
  session_id?: string | null;
  /** The seat of the session to act on. */
  seat?: number | null;
  /** A model with a similar name. */
  model?: string | null;
  /** The endpoint to add. */
  endpoint?: string | null;
  /** The scope that a token needs. */
  scope?: string | null;
  /** The user to act on. */
  user?: string | null;
  /** The setting that the operator must change. */
  setting?: string | null;
  /** Whether the missing money is play money. */
  is_play?: boolean | null;
}

/** A process with its definition and prompts. */
export interface ProcessDetail {
  name: string;
  title: string;
  description: string;
  domains: Array<string>;
  stages: Array<string>;
  /** Shipped with Dialectic; false if the server added it. */
  is_shipped: boolean;
  /** Why it cannot be used. */
  problem: string | null;
  content_hash: string;
  definition: Record<string, unknown>;
}

/** What a process does with a number of seats, before anything runs. */
export interface ProcessOutline {
  name: string;
  seats: number;
  calls: number;
  stages: Array<StageOutline>;
}

/** What the same run would cost with another shipped process. */
export interface ProcessPrice {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
  process: string;
  title: string;
}

/** A process in a list. */
export interface ProcessSummary {
  name: string;
  title: string;
  description: string;
  domains: Array<string>;
  stages: Array<string>;
  /** Shipped with Dialectic; false if the server added it. */
  is_shipped: boolean;
  /** Why it cannot be used. */
  problem: string | null;
}

/** A project. */
export interface Project {
  id: string;
  name: string;
  /** The name of its folder; never changes. */
  slug: string;
  domain: string;
  status: string;
  created_at: string;
  prompt: string;
  /** What every prompt of the project says in addition. */
  overlay: string;
}

/** The fields of a project to change; absent fields stay as they are. */
export interface ProjectChange {
  name?: string | null;
  /** The guidance of this domain is in all later prompts. */
  domain?: string | null;
  is_archived?: boolean | null;
  /** What every prompt says in addition from now on; empty removes it. */
  overlay?: string | null;
}

/** A project was made, renamed, archived or deleted, or a person has worked on its plan. */
export interface ProjectChanged {
  project_id: string;
  project: ProjectSummary | null;
  /** It was deleted, and the object is null. */
  is_gone?: boolean;
}

/** A project was made, renamed, archived or deleted, or a person has worked on its plan. */
export interface ProjectChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "project_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: ProjectChanged;
}

/** A file of a project. */
export interface ProjectFile {
  /** The path in storage and in an export. */
  path: string;
  /** The hash of its bytes; null for a file that a person has changed or added. */
  sha256?: string | null;
}

/** A project in a list, with its last session. */
export interface ProjectLine {
  id: string;
  name: string;
  /** The name of its folder; never changes. */
  slug: string;
  domain: string;
  status: string;
  created_at: string;
  prompt_excerpt: string;
  /** When one of its sessions last moved. */
  updated_at: string;
  /** How many it has. */
  sessions: number;
  /** US dollars, exactly. */
  spent: string;
  /** US dollars, exactly. */
  play_spent: string;
  last_session: SessionLine | null;
}

/** Creates a project. */
export interface ProjectRequest {
  /** If empty, the first sentence of the prompt. */
  name?: string;
  /** A domain of the installed processes, in any letter case. */
  domain?: string;
  /** What every prompt of the project says in addition to the process's prompts. */
  overlay?: string;
  resources?: Array<ResourceRequest>;
  /** The question or task for the models. */
  prompt: string;
}

/** The order of a list of projects. */
export type ProjectSort = "created" | "activity" | "name";

/** A project in a list. */
export interface ProjectSummary {
  id: string;
  name: string;
  /** The name of its folder; never changes. */
  slug: string;
  domain: string;
  status: string;
  created_at: string;
}

/** Where the passages of a document come from. */
export interface Provenance {
  contribution_id: string;
  version_id: string;
  /** How it was found. */
  method: string;
  depth: "direct" | "origin";
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  /** Passages that were not compared because there are too many. */
  unread: number;
  passages: Array<TracedPassage>;
  by_seat: Array<SeatShare>;
}

/** The remaining work in lines, the duration of each stage, and the size of the samples. */
export interface Quote {
  process_name: string;
  models: Array<string>;
  lines: Array<Line>;
  durations: Record<string, Duration>;
  documents_here?: number;
  documents_earlier?: number;
  extra_rate?: number;
}

/** Asks for a quote for a run that has not started. */
export interface QuoteRequest {
  /** The server's default models if absent. */
  models?: Array<string> | null;
  /** What this session is about beyond the project's prompt. Every prompt has it. */
  session_description?: string;
  /** The last stage; the process's last if absent. */
  until?: string | null;
  /** The model whose final documents are the result; the first if absent. */
  lead?: string | null;
  /** Whether each stage starts the next one automatically. */
  is_autopilot?: boolean;
  /** Whether a stage that left a weighty dissent open waits for you, although the session is on autopilot. */
  pause_on_dissent?: boolean;
  /** Whether truncated answers are continued. */
  continue_until_complete?: boolean;
  /** Whether a stage fails when any seat fails, although the process could go on. */
  wait_for_all?: boolean;
  max_output_tokens?: number | null;
  /** Whether calls wait for money rather than get a shorter answer for lack of it. */
  full_answers_only?: boolean;
  /** Whether all calls of the session are approved that cost more than the share of the balance which needs no approval. Calls inside a budget never need one. */
  approve_spend?: boolean;
  budget?: string | number | null;
  /** How many of the process's optional parts to leave out. */
  shrink?: number;
  /** If empty, the first sentence of the prompt. */
  name?: string;
  /** A domain of the installed processes, in any letter case. */
  domain?: string;
  /** What every prompt of the project says in addition to the process's prompts. */
  overlay?: string;
  resources?: Array<ResourceRequest>;
  /** The question or task for the models, for a new project. */
  prompt?: string;
  /** Instead of a prompt: the project that gets a further session. `resources` are added to it. */
  project_id?: string | null;
  /** The name of a process on the server. */
  process?: string;
  /** Also list smaller runs. */
  lists_smaller?: boolean;
}

/** A rating of a contribution. */
export interface RatingRequest {
  rating: number;
}

/** The ratings of a document by all users. */
export interface Ratings {
  count: number;
  mean: number | null;
}

/** Which notifications to mark as read: all that meet every given condition. */
export interface ReadRequest {
  /** This notification and older ones. */
  up_to?: number | null;
  /** Those about this session. */
  session_id?: string | null;
}

/** How many notifications were marked as read, and how many are still unread. */
export interface ReadResult {
  read_count: number;
  unread_count: number;
}

/** A contribution that another was written from, and the version of it that was read. */
export interface ReadVersion {
  /** The id of the first version. */
  contribution_id: string;
  /** Null if it is not known. */
  version_id: string | null;
  version: number | null;
  /** A user edited this version. */
  is_by_user: boolean;
}

/** Why a call failed or waits. People read words made of code and figures. */
export interface Reason {
  code: string;
  message: string;
  at?: string | null;
  attempt?: number | null;
  figures?: NeedFigures | null;
  remedy?: ProblemRemedy | null;
}

/** A contribution's row, with an excerpt in place of its text. */
export interface ReceivedContribution {
  id: string;
  model_name: string;
  stage: string;
  iteration_number: number;
  contribution_type: string;
  storage_path: string;
  is_incomplete: boolean;
  is_intermediate: boolean;
  is_stale: boolean;
  flags: Array<string>;
  edit_version: number;
  tokens_used_input: number | null;
  tokens_used_output: number | null;
  finish_reason: string | null;
  created_at: string;
  /** The beginning of the text, without headings and markup; empty if it has none. */
  excerpt: string;
  session_id: string;
  job_id: string | null;
  user_id: string | null;
  model_id: string | null;
  model_index: number | null;
  rank: number | null;
  origin: number | null;
  source_group: string | null;
  source_contribution_ids: Array<string>;
  read_version_ids: Array<string>;
  words_hash: string | null;
  target_contribution_id: string | null;
  original_model_contribution_id: string | null;
  is_latest_edit: boolean;
  raw_response_storage_path: string | null;
  mime_type: string;
  size_bytes: number;
  prompt_template_name: string | null;
  usage_source: string | null;
  raw_finish_reason: string | null;
  provider_request_id: string | null;
  processing_time_ms: number | null;
  manifest: Record<string, JsonValue> | null;
}

export interface Record_ChunkRecord_ {
  record: ChunkRecord;
}

export interface Record_ContributionRecord_ {
  record: ContributionRecord;
}

/** Who refused a point, and why. */
export interface Refused {
  place: Place;
  reason: string;
}

/** How a point differs from what it says the same as. */
export type Relation = "verbatim" | "changed" | "rounded" | "merged" | "reworded" | "new";

/** The next step after an error. Part of the API: values are added, never changed. */
export type RemedyAction = 
  | "try_again"
  | "resume"
  | "approve_spend"
  | "raise_budget"
  | "retry"
  | "start_next"
  | "iterate"
  | "watch"
  | "drop_seat"
  | "replace_seat"
  | "start_session"
  | "top_up"
  | "show_costs"
  | "quote_run"
  | "choose_model"
  | "choose_defaults"
  | "add_endpoint"
  | "list_endpoints"
  | "list_sessions"
  | "list_contributions"
  | "list_jobs"
  | "list_chats"
  | "list_notifications"
  | "list_users"
  | "list_tokens"
  | "list_organizations"
  | "create_token"
  | "add_user"
  | "configure"
  | "check_setup"
  | "migrate_database";

/** A text to be rendered; it is not saved. */
export interface RenderRequest {
  text: string;
}

/** A document as HTML that is safe to show: no script, no style, nothing is loaded. */
export interface RenderedDocument {
  html: string;
  toc: Array<TocEntry>;
  blocks: Array<Block>;
  /** The language of the text; null if it is not clear. */
  lang: string | null;
}

/** A requirement, and the steps that cover it. */
export interface RequirementFate {
  requirement: Place;
  number: string;
  met: Met;
  steps: Array<string>;
}

/** A document or a resource, without its text. */
export interface Resource {
  id: string;
  project_id: string;
  session_id: string | null;
  kind: string;
  /** The process's key for this document of the stage. */
  document_key: string | null;
  stage: string | null;
  iteration: number | null;
  /** The path in storage and in an export. */
  path: string;
  mime_type: string;
  size_bytes: number;
  /** The contribution it was extracted from. */
  contribution_id: string | null;
  created_at: string;
}

/** The kinds of resource that a user may add to a project. */
export type ResourceKind = 
  | "deployment_context"
  | "domain_standards"
  | "success_criteria"
  | "constraint_boundaries"
  | "stakeholder_considerations"
  | "reference_documents"
  | "compliance_requirements";

/** A text that accompanies a project's prompt. */
export interface ResourceRequest {
  kind: ResourceKind;
  name: string;
  text: string;
}

/** Your response to one contribution. */
export interface ResponseRequest {
  contribution_id: string;
  text?: string;
  rating?: number | null;
}

/** Resumes one job. */
export interface ResumeJobRequest {
  /** Approve the calls that exceed the automatic spending limit. */
  approve_spend?: boolean;
}

/** Resumes a session. */
export interface ResumeRequest {
  /** Approve the calls that exceed the automatic spending limit. */
  approve_spend?: boolean;
  /** The session's new spending limit, in total. */
  budget?: string | number | null;
  /** Whether calls wait for money rather than get a shorter answer for lack of it. */
  full_answers_only?: boolean | null;
  /** Resume only the calls of this stage; all if absent. */
  stage?: string | null;
}

/** The message to rewind a chat to. */
export interface RewindRequest {
  /** Removes this message and all later ones from the thread. */
  message_id: string;
}

/** What a user may do in a tenant beyond its projects: admins manage members, owners all. */
export type Role = "owner" | "admin" | "member";

/** A decision about a claim or a dissent. */
export interface Ruling {
  id: string;
  subject_id: string;
  /** What is said there. */
  subject: string;
  verdict: RulingVerdict;
  /** The position of a dissent that it is for. */
  position_id: string | null;
  /** The words that it is for. */
  upheld: string | null;
  /** The words that it is against. */
  rejected: Array<string> | null;
  text: string;
  /** Every prompt of the stages after it has the ruling, also in later iterations. */
  stage: string;
  iteration: number;
  by: Author;
  created_at: string;
}

/** A decision about a claim, which every later prompt has until it is withdrawn. */
export interface RulingRequest {
  verdict: RulingVerdict;
  /** What holds instead, for `change` and `own`; else what to add. */
  text?: string;
  /** The ruling of another user that this one replaces. */
  replaces?: string | null;
}

/** What a person decides about a claim or a dissent. */
export type RulingVerdict = "keep" | "change" | "drop" | "own";

/** The quote for a run that has not started. */
export interface RunQuote {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
  process: string;
  models: Array<string>;
  input_tokens: number;
  output_tokens: number;
  seconds: Seconds;
  learned_from: LearnedFrom;
  stages: Array<StageQuote>;
  /** What the session has cost so far; 0 for a new run. */
  spent: string;
  /** US dollars, exactly. */
  spent_play: string;
  /** What it will have cost in the end: spent and expected. */
  forecast: string;
  /** US dollars, exactly. */
  forecast_play: string;
  /** What the wallet has now, of this money; null if it has no limit. */
  balance: string | null;
  /** What is expected to be left of it. */
  balance_after: string | null;
  /** The stage in which wallet or budget are expected to be used up; null if they suffice. */
  ends_in_stage: string | null;
  /** Where the available money will limit the answers. */
  answer_limits: Array<AnswerLimit>;
  quoted_at: string;
  /** The single lines that the totals add up, by step and model, if requested. */
  lines: Quote | null;
  /** The server chose the models: neither the request nor a setting names any. */
  has_chosen_models: boolean;
  budget: string | null;
  /** The `shrink` value that makes the run fit the budget. */
  shrink: number;
  /** Whether the run then fits the budget. */
  fits: boolean;
  left_out: Array<string>;
  /** Smaller runs that save money, if requested. */
  smaller: Array<CheaperRun>;
  /** The price with the other of the processes `standard` and `quick`, which make the same documents; empty if the run uses neither, or if both cost the same. */
  others: Array<ProcessPrice>;
}

/** One turn of a contribution, without its text. */
export interface SavedChunk {
  id: string;
  root_contribution_id: string;
  turn_index: number;
  model_name: string;
  storage_path: string;
  size_bytes: number;
  tokens_used_input: number;
  tokens_used_output: number;
}

/** The saved feedback. */
export interface SavedFeedback {
  /** The ids of the saved entries, in the order given. */
  ids: Array<string>;
  /** The file with all feedback on the stage. */
  path: string;
}

/** What a token may be used for. No scope includes another. */
export type Scope = "read" | "write" | "spend" | "admin";

/** A matching passage and its document. */
export interface SearchHit {
  document_id: string;
  session_id: string | null;
  /** The document's path in the project's folder. */
  path: string;
  /** The headings above the passage, outermost first. */
  heading_path: Array<string>;
  text: string;
  /** The passage's first character, as an offset in the document. */
  start: number;
  end: number;
  /** The block of the document's HTML that it begins in. */
  block: string | null;
  score: number;
}

/** What can be found. */
export type SearchKind = "project" | "session" | "document" | "passage" | "chat";

/** The results of a search, and the tokens it used. */
export interface SearchResults {
  items: Array<SearchHit>;
  next_cursor: string | null;
  /** The number of documents searched. */
  documents: number;
  embedder: string;
  embedded_tokens: number;
}

/** One entry of a session's models; the same model may have several seats. */
export interface Seat {
  /** Its number, from 1; a seat keeps it for the whole session. */
  seat: number;
  model: string;
  /** What it argues for, if the process says so. */
  angle: string | null;
  is_lead: boolean;
  /** It was dropped, or it failed and the others go on. */
  has_left: boolean;
}

/** A seat left the session, or has another model; the session goes on. */
export interface SeatChanged {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  seat: number;
  model_name: string;
  change: string;
  /** How many seats the session has now. */
  remaining: number;
  /** The job that failed, if one did. */
  job_id?: string | null;
  /** Why it failed. */
  error?: EventError | null;
}

/** A seat left the session, or has another model; the session goes on. */
export interface SeatChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "session_seat_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: SeatChanged;
}

/** How many claims of a seat came to what. */
export interface SeatClaims {
  seat: number;
  made: number;
  kept: number;
  changed: number;
  refused: number;
  dropped: number;
  pending: number;
}

/** A seat of a session. */
export interface SeatLine {
  index: number;
  model: string;
  /** The model without its endpoint. */
  label: string;
  is_lead: boolean;
  is_dropped: boolean;
}

/** What the calls of a seat have cost. */
export interface SeatMoney {
  seat: number;
  /** US dollars, exactly. */
  spent: string;
}

/** Gives a seat another model. */
export interface SeatRequest {
  model: string;
}

/** How many passages of a document say what a seat said first. */
export interface SeatShare {
  seat: number;
  passages: number;
}

/** What a seat brought to the final document of an iteration. */
export interface SeatWorth {
  /** Points that no other thesis has. */
  points: number;
  /** Those of them that the final document says. */
  kept: number;
  objections: number;
  /** Objections that an editor took. */
  objections_taken: number;
  /** Refusals of its that a person overruled. */
  overruled: number;
  /** Points that its documents read and do not have. */
  omissions: number;
  calls: number;
  /** US dollars, exactly. */
  charged: string;
  /** In play money, of offline models. */
  charged_play: string;
  /** How long its documents took to write. */
  minutes: number;
  /** Null if nothing was charged. */
  kept_per_dollar: number | null;
  kept_per_minute: number | null;
  seat: number;
  model: string;
  /** What the final document would lack without it: its kept points, at most 50. */
  lost_without: Array<Place>;
}

/** An estimated duration. */
export interface Seconds {
  expected: number;
  worst: number;
}

/** What happened to a section. */
export type SectionState = "same" | "changed" | "added" | "removed";

/** A session. */
export interface Session {
  id: string;
  project_id: string;
  project_name: string;
  status: string;
  current_stage: string;
  iteration: number;
  until: string;
  model_count: number;
  created_at: string;
  description: string;
  /** The models of all seats, by number, those that left included. */
  models: Array<string>;
  seats: Array<Seat>;
  lead: string;
  process: string;
  is_autopilot: boolean;
  pause_on_dissent: boolean;
  continue_until_complete: boolean;
  wait_for_all: boolean;
  max_output_tokens: number | null;
  full_answers_only: boolean;
  budget: string | null;
  /** US dollars, exactly. */
  spent: string;
  /** Play money spent on models that are free. */
  play_spent: string;
  stages: Array<StageProgress>;
}

/** What a user can do with a session. */
export type SessionAction = 
  | "start"
  | "submit"
  | "iterate"
  | "retry"
  | "pause"
  | "resume"
  | "cancel"
  | "change_budget"
  | "change_models"
  | "replace_seat";

/** A user cancelled the session. */
export interface SessionCancelled {
  sessionId: string;
}

/** A user cancelled the session. */
export interface SessionCancelledEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "session_cancelled";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: SessionCancelled;
}

/** The fields of a session to change; absent fields stay as they are. */
export interface SessionChange {
  /** The models of the stages to come; only while no stage runs. */
  models?: Array<string> | null;
  /** US dollars; null for no limit. */
  budget?: string | number | null;
  continue_until_complete?: boolean | null;
  wait_for_all?: boolean | null;
  /** Null for no cap. */
  max_output_tokens?: number | null;
  /** Whether calls wait for money rather than get a shorter answer for lack of it. */
  full_answers_only?: boolean | null;
}

/** A session, what it needs, or its budget changed. */
export interface SessionChanged {
  session: BoardSession;
  needs: Array<BoardNeed>;
  money: SessionMoney;
}

/** A session, what it needs, or its budget changed. */
export interface SessionChangedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "session_changed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: SessionChanged;
}

/** All stored data of a session, as records. */
export interface SessionDetail {
  session: SessionRecord;
  stages: Array<StageRecord>;
  jobs: Array<JobRecord>;
  contributions: Array<ContributionLine>;
  /** For each complete stage that promises a checklist: whose it is. */
  plans: Array<PlanSource>;
  /** The number of the newest event. */
  last_event: number;
  /** Continue the event stream here: send it to it as `after`. */
  cursor?: string;
  /** Whether the session has an event later than `after`. */
  has_news: boolean;
  /** The remaining work, if requested. */
  quote: WorkQuote | null;
}

/** A session in a list, with all that a row shows. */
export interface SessionLine {
  id: string;
  project_id: string;
  project_name: string;
  status: string;
  current_stage: string;
  iteration: number;
  until: string;
  model_count: number;
  created_at: string;
  seats: Array<SeatLine>;
  /** All stages of the process, in order. */
  stages: Array<StageLine>;
  /** How many calls are under way. */
  running: number;
  /** All its spending so far was play money. */
  is_play: boolean;
  /** US dollars, exactly. */
  spent: string;
  budget: string | null;
  /** When it last moved. */
  updated_at: string;
  needs: Array<ListedNeed>;
}

/** What a session has cost and will cost; dollars, or play money if all seats are free. */
export interface SessionMoney {
  is_play: boolean;
  /** US dollars, exactly. */
  spent: string;
  /** Play money, apart from dollars. */
  play_spent: string;
  /** Reserved for calls in flight. */
  held: string;
  /** Expected in all; null if it is unknown. */
  forecast: string | null;
  /** The most that it can cost in all. */
  worst: string | null;
  /** What was expected when the session began. */
  quoted: string | null;
  budget: string | null;
  seconds_left: number | null;
  by_stage: Array<StageMoney>;
  by_seat: Array<SeatMoney>;
}

/** A user paused the session. */
export interface SessionPaused {
  sessionId: string;
}

/** A user paused the session. */
export interface SessionPausedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "session_paused";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: SessionPaused;
}

/** The plan of a session's last finished iteration, assembled from its documents. */
export interface SessionPlan {
  session_id: string;
  project_id: string;
  iteration_number: number;
  /** Where the page is in storage; null if another session of the project finished an iteration later. */
  path: string | null;
  /** What readers must know about the models, in sentences. */
  notices: Array<string>;
  /** The parts that no document has, such as `questions`. */
  missing: Array<string>;
  /** The page, as Markdown. */
  content: string;
}

/** All stored data of a session, with the names of its columns. */
export interface SessionRecord {
  id: string;
  project_id: string;
  project_name: string;
  project_slug: string;
  user_id: string;
  wallet_id: string;
  session_description: string;
  status: string;
  current_stage_slug: string;
  until_stage_slug: string;
  iteration_count: number;
  selected_model_ids: Array<string>;
  model_names: Array<string>;
  dropped_seats: Array<number>;
  lead_model_index: number;
  is_autopilot: boolean;
  pause_on_dissent: boolean;
  continue_until_complete: boolean;
  wait_for_all: boolean;
  max_output_tokens: number | null;
  full_answers_only: boolean;
  max_retries: number;
  process_template_id: string;
  process_name: string;
  content_hash: string;
  budget_credits: number | null;
  spent_credits: number;
  play_spent_credits: number;
  created_at: string;
}

/** Starts a session: its models, its process and its last stage. */
export interface SessionRequest {
  /** The server's default models if absent. */
  models?: Array<string> | null;
  /** What this session is about beyond the project's prompt. Every prompt has it. */
  session_description?: string;
  /** The last stage; the process's last if absent. */
  until?: string | null;
  /** The model whose final documents are the result; the first if absent. */
  lead?: string | null;
  /** Whether each stage starts the next one automatically. */
  is_autopilot?: boolean;
  /** Whether a stage that left a weighty dissent open waits for you, although the session is on autopilot. */
  pause_on_dissent?: boolean;
  /** Whether truncated answers are continued. */
  continue_until_complete?: boolean;
  /** Whether a stage fails when any seat fails, although the process could go on. */
  wait_for_all?: boolean;
  max_output_tokens?: number | null;
  /** Whether calls wait for money rather than get a shorter answer for lack of it. */
  full_answers_only?: boolean;
  /** Whether all calls of the session are approved that cost more than the share of the balance which needs no approval. Calls inside a budget never need one. */
  approve_spend?: boolean;
  budget?: string | number | null;
  /** How many of the process's optional parts to leave out. */
  shrink?: number;
  /** The name of a process on the server. */
  process?: string;
}

/** A user resumed the session. */
export interface SessionResumed {
  sessionId: string;
}

/** A user resumed the session. */
export interface SessionResumedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "session_resumed";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: SessionResumed;
}

/** The current state of a session. */
export interface SessionSnapshot {
  id: string;
  project_id: string;
  project_name: string;
  status: string;
  current_stage_slug: string;
  iteration_count: number;
  stage_status: string | null;
  finished_units: number | null;
  planned_units: number | null;
}

/** What each seat brought to the final document of an iteration. */
export interface SessionWorth {
  session_id: string;
  iteration: number;
  /** Ask again in a while if it is `computing`. */
  state: ClaimsState;
  /** How it was found. */
  method: string;
  /** `unknown`: what was read is not recorded, so newest versions are compared. */
  versions: "known" | "unknown";
  /** The document it is judged by; null if none exists yet. */
  of: Place | null;
  seats: Array<SeatWorth>;
}

/** A link to a report, without its secret. */
export interface Share {
  id: string;
  session_id: string;
  has_pass_phrase: boolean;
  has_drafts: boolean;
  has_names: boolean;
  by: Author;
  created_at: string;
  expires_at: string;
}

/** A link to a session's report, for people without an account. */
export interface ShareRequest {
  /** How long it works. */
  days?: number;
  /** What a reader must enter first. */
  pass_phrase?: string | null;
  /** Include the drafts of later steps. */
  drafts?: boolean;
  /** Name the models; else only their seats. */
  names?: boolean;
}

/** How far the inputs of a document were shortened. */
export interface Shortened {
  items: number;
  /** Tokens of the prompt before shortening. */
  before: number;
  after: number;
}

/** What a text is. */
export type SourceKind = "contribution" | "request" | "resource" | "feedback" | "ruling" | "person";

/** What the wallet paid for the calls of one model on one day. */
export interface Spending {
  /** In UTC. */
  day: string;
  model: string | null;
  is_play: boolean;
  calls: number;
  /** US dollars, exactly. */
  charged: string;
}

/** A stage was planned, or one of its documents was written. */
export interface StageAdvanced {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  /** How many documents of the stage are written. */
  current_step: number;
  /** How many documents of the stage are planned. */
  total_steps: number;
  /** What is being done, and how far that step is. */
  message: string;
  /** Absent when the stage was planned. */
  job_id?: string | null;
}

/** A stage was planned, or one of its documents was written. */
export interface StageAdvancedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "dialectic_progress_update";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: StageAdvanced;
}

/** All jobs of a stage have ended. */
export interface StageEnded {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  status: string;
  /** How many models have finished. */
  completed: number;
  failed: number;
  cancelled: number;
}

/** All jobs of a stage have ended. */
export interface StageEndedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_complete";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: StageEnded;
}

/** A stage of the process, and how far it is in the current iteration. */
export interface StageLine {
  slug: string;
  title: string;
  status: string;
  planned: number;
  finished: number;
  /** How many calls are under way. */
  running: number;
}

/** What a stage has cost, and what it is expected to cost in all. */
export interface StageMoney {
  stage: string;
  /** US dollars, exactly. */
  spent: string;
  /** Null if it cannot be estimated. */
  expected: string | null;
}

/** A stage of a process and its steps; one without steps is one step. */
export interface StageOutline {
  slug: string;
  title: string;
  description: string;
  position: number;
  /** The name of its system prompt. */
  system_prompt: string;
  calls: number;
  steps: Array<StepOutline>;
}

/** The progress of one stage of one iteration. */
export interface StageProgress {
  stage: string;
  iteration: number;
  status: string;
  /** The number of documents planned. */
  planned: number;
  finished: number;
  /** The seats that take part. */
  seats: Array<number>;
  /** Those of them without which it goes on. */
  lost_seats: Array<number>;
  started_at: string | null;
  completed_at: string | null;
}

/** The part of a quote that belongs to one stage. */
export interface StageQuote {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
  stage: string;
  input_tokens: number;
  output_tokens: number;
  seconds: Seconds;
}

/** All stored data of one stage of one iteration. */
export interface StageRecord {
  stage_slug: string;
  iteration_number: number;
  status: string;
  planned_units: number;
  finished_units: number;
  seats: Array<number>;
  lost_seats: Array<number>;
  started_at: string | null;
  completed_at: string | null;
}

/** A stage has begun: its first job has all it needs. A planned stage is not told of. */
export interface StageStarted {
  sessionId: string;
  stageSlug: string;
  iterationNumber: number;
  /** How many documents are planned. */
  total_steps: number;
}

/** A stage has begun: its first job has all it needs. A planned stage is not told of. */
export interface StageStartedEvent {
  /** Grows by one within a tenant; of a change event, that of the event before it. */
  id: number;
  type: "contribution_generation_started";
  created_at: string;
  session_id: string | null;
  /** It updates views; false for a message to a user. */
  is_internal_event: boolean;
  data: StageStarted;
}

/** Where a stage is. */
export type StageState = "not_begun" | "waiting" | "generating" | "complete" | "failed" | "cancelled";

/** A document that was written from an older version of another. */
export interface StaleDocument {
  /** Its newest version. */
  id: string;
  stage: string;
  iteration: number;
  type: string;
  model: string;
  seat: number | null;
  path: string;
  /** The open job that writes it again, if there is one. */
  job_id: string | null;
  /** Why it is left as it is: a person edited it, or its job was not imported. */
  kept: Kept | null;
}

/** The stale documents of a session, and what it costs to write them again. */
export interface StaleDocuments {
  /** In the order in which they are written. */
  documents: Array<StaleDocument>;
  /** Those that are left as they are. */
  kept: Array<StaleDocument>;
  quote: WorkQuote;
}

/** Creates what a run needs and starts it, in one step. */
export interface StartRequest {
  /** The server's default models if absent. */
  models?: Array<string> | null;
  /** What this session is about beyond the project's prompt. Every prompt has it. */
  session_description?: string;
  /** The last stage; the process's last if absent. */
  until?: string | null;
  /** The model whose final documents are the result; the first if absent. */
  lead?: string | null;
  /** Whether each stage starts the next one automatically. */
  is_autopilot?: boolean;
  /** Whether a stage that left a weighty dissent open waits for you, although the session is on autopilot. */
  pause_on_dissent?: boolean;
  /** Whether truncated answers are continued. */
  continue_until_complete?: boolean;
  /** Whether a stage fails when any seat fails, although the process could go on. */
  wait_for_all?: boolean;
  max_output_tokens?: number | null;
  /** Whether calls wait for money rather than get a shorter answer for lack of it. */
  full_answers_only?: boolean;
  /** Whether all calls of the session are approved that cost more than the share of the balance which needs no approval. Calls inside a budget never need one. */
  approve_spend?: boolean;
  budget?: string | number | null;
  /** How many of the process's optional parts to leave out. */
  shrink?: number;
  /** If empty, the first sentence of the prompt. */
  name?: string;
  /** A domain of the installed processes, in any letter case. */
  domain?: string;
  /** What every prompt of the project says in addition to the process's prompts. */
  overlay?: string;
  resources?: Array<ResourceRequest>;
  /** The question or task for the models, for a new project. */
  prompt?: string;
  /** Instead of a prompt: the project that gets a further session. `resources` are added to it. */
  project_id?: string | null;
  /** The name of a process on the server. */
  process?: string;
  /** Whether the first stage starts at once. */
  start?: boolean;
}

/** What a run consists of, and the first jobs if it was started. */
export interface StartedRun {
  project: Project;
  session: Session;
  job_ids: Array<string>;
}

/** The state of sessions, in place of events that are not available. Forget earlier events. */
export interface StateReset {
  reset?: true;
  reason: string;
  sessions: Array<SessionSnapshot>;
}

/** What became of a point. */
export type Status = "kept" | "changed" | "refused" | "dropped" | "pending";

/** A step of the checklist, and the requirements that it serves. */
export interface StepFate {
  step: Place;
  met: Met;
  requirements: Array<string>;
}

/** A step of a process: how many calls it makes, with which prompt. */
export interface StepOutline {
  name: string;
  /** What its calls do, for people. */
  title: string;
  description: string;
  /** How its inputs are dealt; null for a whole stage. */
  strategy: string | null;
  output_type: string;
  is_intermediate: boolean;
  /** The name of its prompt template. */
  prompt: string;
  calls: number;
  /** The most calls of one seat. */
  calls_per_seat: number;
}

/** How `pipeline.strategies` distributes the inputs of a step to its child jobs. */
export type Strategy = 
  | "per_source_document"
  | "pairwise_by_origin"
  | "per_source_group"
  | "per_source_document_by_lineage"
  | "all_to_one"
  | "per_model";

export type StreamData = KnownEvent | ChangeEvent | NotificationEvent | StateReset | Draft;

/** What a document rests on. */
export interface Strength {
  contribution_id: string;
  version_id: string;
  iteration: number;
  seats_asked: number;
  /** The seats whose work is in the document. */
  seats: Array<number>;
  /** Their models, each once. */
  models: Array<string>;
  /** Whether it rests on one model alone. */
  is_single_model: boolean;
  missing: Array<MissingSeat>;
  theses: number;
  critiques: number;
  /** Null without theses. */
  critiques_per_thesis: number | null;
  /** The theses without a critique, where others have one. */
  uncriticised: Array<string>;
  /** The theses that only their own model has criticised. */
  self_criticised: Array<string>;
  /** How many documents it descends from, itself included. */
  documents: number;
  /** How many of these were written from shortened texts. */
  shortened: number;
  /** The share of their inputs that was left out. */
  shortened_share: number;
  /** Those of them that are incomplete. */
  cut_off: Array<string>;
  /** What a smaller process left out. */
  reduced: Array<string>;
  is_stale: boolean;
  /** Null while it is being computed. */
  open_dissents: number | null;
  /** Null while it is being computed. */
  broken_rulings: number | null;
  /** Empty if there is nothing to be said. */
  notes: Array<StrengthNote>;
  /** The notes in one line for people; empty without notes. */
  summary: string;
}

/** Something that makes a document weaker than it could be. */
export interface StrengthNote {
  code: "single_model" | "missing_seat" | "uncriticised" | "self_criticised" | "shortened" | "cut_off" | "reduced" | "stale" | "open_dissent" | "broken_ruling";
  text: string;
}

/** Your responses to a complete stage; submitting them starts the next stage. */
export interface SubmitRequest {
  responses?: Array<ResponseRequest>;
  /** About the stage as a whole. */
  feedback?: string;
}

/** The tenant to switch to. */
export interface SwitchRequest {
  tenant_id: string;
}

/** A prompt of the processes that your sessions have run. */
export interface SystemPrompt {
  /** The `system_prompt_id` of a chat. */
  id: string;
  name: string;
  /** A stage uses it as its system prompt. The others are templates: a chat gets them with their variables as they are. */
  is_role: boolean;
  /** The processes that use it. */
  processes: Array<string>;
  text: string;
  created_at: string;
}

/** An account that the caller belongs to: their own, or an organisation's. */
export interface Tenant {
  id: string;
  name: string;
  kind: string;
  role: string;
}

/** How many points that only one thesis has came to what. */
export interface ThesisCoverage {
  thesis: Place;
  points: number;
  kept: number;
  changed: number;
  refused: number;
  dropped: number;
  pending: number;
}

/** A heading in a document's table of contents. */
export interface TocEntry {
  /** The id of its block. */
  id: string;
  level: number;
  text: string;
}

/** A token, without its secret. */
export interface Token {
  id: string;
  user_name: string;
  name: string;
  scopes: Array<Scope>;
  created_at: string;
  expires_at: string;
  last_used_at: string | null;
}

/** Creates a token. */
export interface TokenRequest {
  name: string;
  /** All of yours if absent. */
  scopes?: Array<Scope> | null;
  life_days?: number;
}

/** How a person is told of one kind of message. */
export interface Told {
  page?: boolean;
  desktop?: boolean;
  sound?: boolean;
}

/** Adds money to the wallet. */
export interface TopUpRequest {
  /** US dollars, with up to six decimals. */
  amount: string | number;
  /** Play money, for offline models. */
  is_play?: boolean;
  /** A note for the transaction. */
  note?: string;
}

/** A passage of a document, and the passages that say the same in what its author read. */
export interface TracedPassage {
  n: number;
  start: number;
  end: number;
  heading: Array<string>;
  holds: Holds;
  relation: Relation;
  /** The contribution that added it; null if it has an origin. */
  new_at: string | null;
  /** `person` if a user's version added it. */
  new_by: SourceKind | null;
  sources: Array<PointSource>;
}

/** One transaction of the wallet. */
export interface Transaction {
  id: number;
  type: string;
  is_play: boolean;
  /** US dollars, exactly. */
  amount: string;
  /** The change of the balance. */
  change: string;
  /** US dollars, exactly. */
  balance_after: string;
  notes: string | null;
  purpose: string | null;
  model: string | null;
  session_id: string | null;
  stage: string | null;
  created_at: string;
}

/** One turn of a contribution. */
export interface TurnSummary {
  id: string;
  turn_index: number;
  storage_path: string;
  finish_reason: string;
  tokens_used_output: number;
  /** The parts of a prompt that was shortened. */
  manifest: Record<string, unknown> | null;
}

/** The text of an uploaded file. */
export interface UploadedText {
  /** The file's name. */
  name: string;
  kind: string;
  text: string;
  /** What the text lacks or lost, in sentences. */
  notes: Array<string>;
}

/** What a critic wants done with a claim, or a person rules. */
export type Verdict = "keep" | "change" | "drop" | "unclear";

/** A wallet. Real money and play money are separate. */
export interface Wallet {
  id: string;
  /** The owner; null if the wallet is the tenant's. */
  user_id: string | null;
  /** The wallet only counts spending and never blocks a call. */
  is_count_only: boolean;
  money: Money;
  play_money: Money;
}

/** What limits the wallet; absent fields stay as they are. */
export interface WalletChange {
  /** Whether it only counts and never blocks a call. */
  is_count_only?: boolean | null;
  /** Spend at most this much from now on. */
  limit?: string | number | null;
}

/** The protocol an endpoint speaks. */
export type WireFormat = "openai" | "anthropic" | "google";

/** The estimated cost and duration of some work. */
export interface WorkQuote {
  /** The number of planned calls. */
  calls: number;
  /** Whether the amounts are play money. */
  is_play: boolean;
  /** With the further turns that are expected. */
  expected: string;
  /** What 19 of 20 runs do not exceed. */
  rarely_above: string;
  /** If every answer is as long as it may be. */
  worst: string;
  /** The worst case with every continuation and every retry that is allowed. */
  ceiling: string;
  /** Play money that is expected; not in the others. */
  expected_play: string;
  process: string;
  models: Array<string>;
  input_tokens: number;
  output_tokens: number;
  seconds: Seconds;
  learned_from: LearnedFrom;
  stages: Array<StageQuote>;
  /** What the session has cost so far; 0 for a new run. */
  spent: string;
  /** US dollars, exactly. */
  spent_play: string;
  /** What it will have cost in the end: spent and expected. */
  forecast: string;
  /** US dollars, exactly. */
  forecast_play: string;
  /** What the wallet has now, of this money; null if it has no limit. */
  balance: string | null;
  /** What is expected to be left of it. */
  balance_after: string | null;
  /** The stage in which wallet or budget are expected to be used up; null if they suffice. */
  ends_in_stage: string | null;
  /** Where the available money will limit the answers. */
  answer_limits: Array<AnswerLimit>;
  quoted_at: string;
  /** The single lines that the totals add up, by step and model, if requested. */
  lines: Quote | null;
}

/** The user's progress with a file of the agreed plan; also its folder's name. */
export type WorkStatus = "Pending" | "Current" | "Complete";

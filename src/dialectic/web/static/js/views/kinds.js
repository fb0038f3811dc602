// The kinds of texts that can be given along with a prompt, on every page that takes them. Pure.

/** The kinds of texts that can be given along with a prompt: code, name, and what each is for. */
export const KINDS = [
  ["reference_documents", "Reference", "Texts that the models should know: notes, articles, earlier plans."],
  ["success_criteria", "Success criteria", "How you will know that the plan is good."],
  ["constraint_boundaries", "Constraints", "What must not happen, and what cannot change: money, time, people."],
  ["stakeholder_considerations", "Stakeholders", "Who is concerned, and what matters to them."],
  ["domain_standards", "Standards", "Rules and habits of the field."],
  ["deployment_context", "Where it will run", "Places, machines and services that are there already."],
  ["compliance_requirements", "Compliance", "Laws and rules that must be kept."],
];

/** The files that are read as texts. */
export const FILES = ".md,.markdown,.txt,.pdf,.docx";

"""The sentences of the offline models, as data: what each of them looks at, and how it says it.

Slots: {it} the short name of the subject, {p} {q} key phrases, {u} the people concerned. A phrase
can be any topic, singular or plural, so no sentence builds its grammar on one. Cells of a row are
divided by ` | `.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Voice:
    """One model's emphasis."""

    name: str
    opening: tuple[str, ...]
    stance: tuple[str, ...]  # what to do about a phrase
    value: tuple[str, ...]  # why a phrase matters
    accept: tuple[str, ...]  # when something counts as done
    keep: tuple[str, ...]  # how a limit is kept
    parts: tuple[str, ...]  # a table, its first row the names of the columns
    risks: tuple[str, ...]  # risk | likelihood | impact | response
    metrics: tuple[str, ...]  # measure | target | how it is measured
    milestones: tuple[str, ...]  # name | goal | acceptance
    objections: tuple[str, ...]  # said to a quoted statement
    praise: tuple[str, ...]
    questions: tuple[str, ...]
    verdict: tuple[str, ...]
    cares: str  # words whose statements it reads first and whose criticism it accepts
    mend: tuple[str, ...]  # what a statement says better
    drop: tuple[str, ...]  # why a criticised statement goes
    refuse: tuple[str, ...]  # why a criticism is not accepted
    signs: tuple[str, ...]  # by what a risk is noticed first
    stack: tuple[str, ...]  # part | choice | why | cost | what would replace it
    steps: tuple[str, ...]  # step of a day | acceptance
    advice: tuple[str, ...]  # one of the four recommendations, and what would change it


ARCHITECT = Voice(
    name="architect",
    opening=(
        "Treat {it} as a few parts with written contracts; most later cost comes from boundaries "
        "that nobody drew.",
        "The shape of {it} comes first: what each part owns, what it promises to the others, and "
        "where the facts are kept.",
    ),
    stance=(
        "**{p}**: name one owner of the facts; every other part asks and keeps no copy.",
        "**{p}**: write the contract before the code: inputs, outputs, errors, an example of each.",
        "**{p}**: keep the rules apart from storage and screens, so that either can change alone.",
        "**{p}**: record every change with time and author, so that the history can answer.",
        "**{p}**: draw one seam towards {q}, and test it with recorded examples from both sides.",
        "**{p}**: put a version on whatever others depend on here, from the first day.",
    ),
    value=(
        "One agreed way to deal with {p} spares {u} the copies and workarounds of today.",
        "What is decided about {p} in the first weeks sets the price of every later change.",
        "With shared words for {p} and {q}, {u} and their tools no longer talk past each other.",
    ),
    accept=(
        "the same entry sent twice changes the facts once",
        "an example is part of the documentation and is checked by a test",
        "a malformed entry is refused with the name of the wrong field",
        "other parts see the result through the published interface alone",
    ),
    keep=(
        "a rule in the core, tested alone",
        "a check where parts meet",
        "a record that shows every breach",
    ),
    parts=(
        "Part | Owns | Offers to the others",
        "Core rules | decisions about {p} and {q} | commands, with clear refusals",
        "Records | current facts and full history of {p} | answers by key and by time",
        "Views | what {u} see and enter | nothing; it only asks",
        "Exchange | imports, exports and outside services for {p} | one adapter for each system",
        "Access | who may see or change what concerns {p} | a yes or no, with the reason",
    ),
    risks=(
        "The boundary between {p} and {q} is drawn in the wrong place | medium | high"
        " | keep both in one piece at first and move the seam while that is cheap",
        "Two parts keep their own version of the facts on {p} | high | high"
        " | name one owner; refuse writes from elsewhere",
        "The model of {p} fits only today's cases | medium | medium"
        " | work through three real cases on paper first",
        "A changed interface breaks {q} unnoticed | medium | high"
        " | run contract tests on both sides of the seam",
    ),
    metrics=(
        "Changes that touch one part only | at least 80 % | parts counted per change",
        "Cases around {p} closed without correction | 99 % in a week | recorded examples",
        "Time from a new need around {p} to its release | two working days | dates in the log",
        "Facts on {p} without owner or history | none | nightly query",
    ),
    milestones=(
        "Agree on {p} | settle the words, records and interfaces around {p}"
        " | two people describe the same case alike without asking each other",
        "One thin line | take one real case of {p} through every part"
        " | the case runs from end to end in a test",
        "A seam towards {q} | put {q} behind a tested interface"
        " | either side of the seam can be replaced by a stub",
        "Ready to operate | add permissions, history, backup and recovery"
        " | someone who did not build it has restored a backup",
    ),
    objections=(
        "On {p}, it stays open who owns the facts and who may change them.",
        "What {p} needs from the other parts is not described: name inputs, outputs and errors.",
        "Nothing is said about {p} when an entry arrives twice, late or out of order.",
    ),
    praise=(
        "This gives {p} a clear place, so that a later change stays local.",
        "It can be tested by itself, without the rest.",
        "It names something that the work on {q} can rely on.",
    ),
    questions=(
        "Where is the single source of truth on {p}?",
        "Which promises around {p} must stay, and which may change without notice?",
        "How long must the history of {p} be kept, and who may erase it?",
        "With which existing systems must {it} exchange data on the first day?",
    ),
    verdict=(
        "Proceed once everything that belongs to {p} is written down and agreed.",
        "Sound in outline; settle how {p} and {q} meet before anything is built.",
        "Adopt the structure, and decide first who owns {p}.",
    ),
    cares="""part parts owner owns interface contract record records data facts seam version model
    boundary rule rules history structure test tested store storage exchange access""",
    mend=(
        "One part owns {p}; all others ask it, and the question and its answer are written down.",
        "The contract around {p} names inputs, outputs and errors, with a tested example of each.",
        "An entry about {p} that arrives twice, late or out of order changes the facts once.",
    ),
    drop=(
        "it would give two parts a say over the same facts",
        "no interface was named behind which it could be built or left away",
        "it ties {p} to {q} for no gain that the request asks for",
    ),
    refuse=(
        "It can be settled later behind the same interface, so nothing is lost by going on.",
        "It blames a part for what another part owns; the boundary already answers it.",
        "It asks for a second place for the same facts, which costs more than it saves.",
    ),
    signs=(
        "two reports on the same case disagree",
        "a change in one part needs a change in a second",
        "a rule is written down in two places",
        "a question nobody can answer from the records",
    ),
    stack=(
        "Rules about {p} | a plain library without framework | can be tested alone | own time only"
        " | any language the team knows better",
        "Records | one relational database | constraints keep the facts whole | a small server"
        " | a hosted database behind the same queries",
        "Access | a ready sign-in service with open standards | too risky to write | a monthly fee"
        " | another service with the same standard",
        "Exchange | one adapter for each outside system | changes stay local | own time only"
        " | the next adapter",
    ),
    steps=(
        "List the facts about {p} and name the owner of each"
        " | the list has one owner for every fact",
        "Write the contract for {p}: inputs, outputs, errors | two readers explain a case alike",
        "Draw the line between {p} and {q} on one page | a third person can say what crosses it",
        "Record three real cases of {p} as examples | each example runs as a test",
    ),
    advice=(
        "**Proceed.** The plans agree on the parts and on who owns what. What would change this: a"
        " case of {p} that no part owns.",
        "**Refine.** The order is right, but the contract around {p} has to be written before the"
        " second milestone. What would change this: a signed example of it.",
    ),
)

PRAGMATIST = Voice(
    name="pragmatist",
    opening=(
        "Aim for the smallest form of {it} that someone would miss if it were gone; everything "
        "else waits for proof.",
        "Time and money decide about {it}: take what pays for itself first, and do the rest by "
        "hand until that hurts.",
    ),
    stance=(
        "**{p}**: start with the plainest version that works on Monday, and count its use.",
        "**{p}**: look for something to buy or borrow before anything is built.",
        "**{p}**: go through the first ten cases by hand; they show what is worth automating.",
        "**{p}**: cap the effort at five working days; then scope gives way, quality stays.",
        "**{p}**: settle this before {q}, which can wait until the first users ask for it.",
        "**{p}**: show a rough version to two real users before anything is polished.",
    ),
    value=(
        "Every week without progress on {p} has a price for {u}: hours lost, errors repaired.",
        "A first version that deals only with {p} can be useful within weeks and is cheap to drop.",
        "Ten minutes a day saved around {p} would pay for a small first release within months.",
    ),
    accept=(
        "a new user gets there in under five minutes without help",
        "it works with last week's real data",
        "it replaces one manual step that can be named",
        "it can be undone with one action",
    ),
    keep=("a default nobody has to remember", "a weekly look by one person", "a smaller scope"),
    parts=(
        "Piece | First version | Later, if it is used",
        "Entry | a form and a list for {p} | search, filters and bulk changes",
        "Overview | a short report on {p} every morning | a live view",
        "Rules | one fixed rule for {p} | rules that {u} can set",
        "Messages | a plain message to {u} | channels and times by choice",
        "Operation | one small machine and a daily copy | a second one when use demands it",
    ),
    risks=(
        "The first release grows until it is late | high | high"
        " | fix the date and move features; what concerns {q} moves first",
        "Time is spent on {p} that nobody asked for | medium | high"
        " | two users, known by name, try it every week",
        "Running costs around {p} surprise the budget | medium | medium"
        " | a monthly ceiling with an alert at half of it",
        "One person holds all knowledge of {p} | medium | medium"
        " | pair on every release and keep a one-page runbook",
    ),
    metrics=(
        "People who use the first release every week | half of those invited | usage count",
        "Time from idea to release | under ten working days | dates in the log",
        "Cost per active user and month | below the agreed ceiling | invoices over users",
        "Manual steps left around {p} | one fewer each month | list kept by the team",
    ),
    milestones=(
        "First cases by hand | serve the first users manually, {p} included"
        " | ten real cases are done and written up",
        "First usable release | ship the plainest form of what {p} needs"
        " | two users work with it for a week without help",
        "Pay back | remove the most expensive manual step around {q}"
        " | the step is gone and the time saved is measured",
        "Decide to go on | compare cost and use with the plan"
        " | a decision is written down: grow, hold or stop",
    ),
    objections=(
        "For {p}, this asks for more than a first release needs; say what happens without it.",
        "No cost or date is given for {p}, so the order of the work cannot be judged.",
        "It is not said who does the work on {p} each week, nor what exists already.",
    ),
    praise=(
        "It can be delivered early and teaches something either way.",
        "It keeps the work on {p} small enough to finish.",
        "It spends effort where {u} would notice.",
    ),
    questions=(
        "What is the smallest progress on {p} for which {u} would change their ways?",
        "Who works on {it}, how many days a week, and until when?",
        "What about {p} may be left out if the date moves closer?",
        "Which ceiling of monthly cost applies to {it}?",
    ),
    verdict=(
        "Go ahead with {p} alone, and decide on {q} after four weeks of use.",
        "Worth doing in a smaller form; let {q} wait for the second release.",
        "Proceed with a fixed date for {p} and a list of what gives way first.",
    ),
    cares="""cost costs money budget price week weeks day days first release users user buy borrow
    hand simple small plain early euro time date scope effort Monday count use""",
    mend=(
        "For {p}, the plainest version ships first, with a date and a ceiling on its cost.",
        "Whoever works on {p} each week is named, and what exists already is used first.",
        "On {p}, the first ten cases are done by hand before anything is automated.",
    ),
    drop=(
        "nobody would miss it in the first release",
        "it costs days that {p} needs more",
        "it can be bought or done by hand until use proves otherwise",
    ),
    refuse=(
        "It costs more than it saves before the first users have seen anything.",
        "True, but not yet: it changes nothing in the first four weeks.",
        "The first release answers it sooner than a discussion would.",
    ),
    signs=(
        "a date moves for the second time",
        "a user does the work by hand again",
        "a week without anything that could be shown",
        "an invoice nobody expected",
    ),
    stack=(
        "Screens for {p} | a ready form and list builder | works this week | a few euros a user"
        " | own screens once use is proven",
        "Records | one hosted database with daily copies | nobody has to run it | a small plan"
        " | a larger plan",
        "Messages | mail through the provider in use | already paid for | nothing extra"
        " | a message service",
        "Reports on {p} | a spreadsheet fed every night | everybody can read it | nothing extra"
        " | a live view",
    ),
    steps=(
        "Do three cases of {p} by hand and time them | the minutes are written down",
        "Look for a product that already does {p} | three offers with their prices are compared",
        "Show a sketch of {p} to two users | both have said what they would leave out",
        "Fix the date and the ceiling for {p} | both stand in one line that the sponsor has seen",
    ),
    advice=(
        "**Proceed.** The first milestone is small enough to be wrong about. What would change"
        " this: no user who gives an hour a week to {p}.",
        "**Refine.** Cut the first milestone until it fits two weeks; let {q} wait. What would"
        " change this: proof that {q} pays for itself first.",
    ),
)

SKEPTIC = Voice(
    name="skeptic",
    opening=(
        "Before anyone commits to {it}, three beliefs need evidence: that the need is real, that "
        "the approach can work, and that failure stays affordable.",
        "Suppose {it} turned out a failure a year from now: the likely reasons are visible today, "
        "and they come first here.",
    ),
    stance=(
        "**{p}**: write down what would prove the idea wrong, and look for that first.",
        "**{p}**: suppose this fails on a busy day; say who notices, and how they get back.",
        "**{p}**: ask for three observed cases, not opinions, before money is spent here.",
        "**{p}**: limit the damage of a fault with an off switch, a log and a way back.",
        "**{p}**: try empty, doubled and hostile input before this is trusted with real work.",
        "**{p}**: let nothing about {q} depend on this until it ran unattended for a month.",
    ),
    value=(
        "How often {u} have trouble with {p} is not known; without a figure the gain is a guess.",
        "Doing nothing about {p} has a cost that can be counted; {it} must beat it clearly.",
        "All rests on the belief that {u} will change their ways with {p}; test that belief first.",
    ),
    accept=(
        "it fails visibly, with a message that names the cause",
        "a wrong entry can be traced and reversed within a day",
        "it was tried with empty, doubled and very large input",
        "someone outside the team has repeated the result",
    ),
    keep=(
        "an alarm that was tried",
        "a weekly sample checked by hand",
        "a stop that anyone can pull",
    ),
    parts=(
        "Area | What is assumed | How to find out",
        "Need | {u} have trouble with {p} often | count cases over two weeks",
        "Input | what arrives about {p} is complete and correct | inspect a hundred real entries",
        "Load | demand around {p} stays near today's | replay a peak day at five times the rate",
        "Habit | {u} will follow the new way | watch five of them without helping",
        "Outside | services behind {p} stay available | switch each one off for an hour",
    ),
    risks=(
        "Trouble with {p} is rarer than believed | medium | high"
        " | measure before building; stop below an agreed line",
        "Wrong results around {p} go unnoticed | medium | high"
        " | check twenty cases a week against the truth",
        "Private data around {q} gets out | low | high"
        " | collect less, encrypt, log each access, rehearse the response",
        "The team believes its own demonstration | high | medium"
        " | let someone judge {p} who gains nothing from a yes",
    ),
    metrics=(
        "Wrong results around {p} | fewer than 1 in 200 | weekly sample, checked by hand",
        "Time to notice a fault | under 15 minutes | planted faults, once a month",
        "Assumptions with evidence | all that could stop the work | list at each milestone",
        "Complaints about {p}, per 100 users | falling each month | support log",
    ),
    milestones=(
        "Evidence on {p} | test the belief that carries the case"
        " | a result with numbers is written down, for or against",
        "Failure drill | make the work around {p} fail on purpose in a trial"
        " | every planted fault was seen and reversed",
        "Limited trial | run ten users with real work and a way back"
        " | no data was lost and every fault has a named cause",
        "Open with limits | raise the number of users in steps, {q} last"
        " | each step keeps its error limit for two weeks",
    ),
    objections=(
        "No evidence is given that this holds for {p}.",
        "The case in which {p} goes wrong is missing: who notices, and what happens then?",
        "As written, the claim about {p} cannot be proved wrong; give a figure and a date.",
    ),
    praise=(
        "This can be checked, and it shows what would count as failure.",
        "It limits the damage if the work on {p} goes wrong.",
        "It rests on something that can be observed.",
    ),
    questions=(
        "Which result would make us stop work on {it}?",
        "Which figure on {p} is known today, and who measured it?",
        "Who is harmed by a fault around {p}, and how would we hear of it?",
        "Which law or rule applies to the data around {p}?",
    ),
    verdict=(
        "Hold until the belief behind {p} has been tested; the test is cheap.",
        "Go on in steps, each with a limit at which work on {p} stops.",
        "Not proven yet: ask for evidence on {p} before the next commitment.",
    ),
    cares="""evidence proof prove risk risks fail fails failure fault wrong lost lose error errors
    limit alarm trial measure measured trouble belief figure drill safe private never harm""",
    mend=(
        "For {p}, a figure and a date say what would count as failure, and who looks.",
        "A fault around {p} is noticed within a day, and there is a rehearsed way back.",
        "The belief behind {p} is tested with ten real cases before money depends on it.",
    ),
    drop=(
        "no observation supports it, and a fault in it would reach {p}",
        "nobody could say how its failure would be noticed",
        "it puts {q} at risk for a gain that was not measured",
    ),
    refuse=(
        "It is asserted and not shown; without a case in which it goes wrong the statement stands.",
        "The harm it fears is small and can be reversed within a day.",
        "Its remedy adds a new way to fail around {p}; the plain form is safer.",
    ),
    signs=(
        "a complaint that nobody saw coming",
        "a number that is always exactly right",
        "a planted fault that stays unnoticed",
        "an exception that became a habit",
    ),
    stack=(
        "Checks on {p} | a test suite with planted faults | finds what nobody expects"
        " | own time only | nothing: it stays",
        "Records | a database with rehearsed restore | loss is the worst case | a second machine"
        " | another one that passes the same drill",
        "Watching | an alarm service outside the system | sees the outage too | a small fee"
        " | a person with a phone",
        "Off switch for {q} | one flag that anyone on duty can turn | limits the damage"
        " | own time only | nothing: it stays",
    ),
    steps=(
        "Count how often {p} goes wrong today | two weeks of cases are on the list",
        "Plant a fault around {p} on purpose | someone noticed it within a day",
        "Write down what would stop the work on {p} | the line has a figure and a date",
        "Rehearse the way back for {p} | it took less than an hour, by the clock",
    ),
    advice=(
        "**Refine.** The plans say what to build and too little about what would stop it. What"
        " would change this: measured cases of trouble with {p}.",
        "**Proceed**, in steps that can be taken back. What would change this: a fault around {p}"
        " that nobody noticed for a day.",
    ),
)

VOICES: tuple[Voice, ...] = (ARCHITECT, PRAGMATIST, SKEPTIC)

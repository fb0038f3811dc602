"""Word lists by which the offline models find their way in a prompt. Data only."""

from __future__ import annotations

# What a heading asks for, by the beginnings of its words; the first match decides.
KINDS: tuple[tuple[str, str], ...] = (
    ("summary", r"^(?:executive )?(?:summary|overview|abstract)|in short|introduction"),
    ("feedback", r"feedback|answers? to"),
    ("proposal", r"(?:improved|consolidated|unified|merged|revised) (?:proposal|version|approach)"),
    ("comparison", r"common ground and differ|agreements? and d"),
    ("taken", r"(?:points?|changes?) (?:taken|accepted|adopted)"),
    (
        "refused",
        r"(?:points?|ideas?|changes?|alternatives?) (?:refused|rejected|declined)|rejected",
    ),
    ("decisions", r"decisions?$"),
    ("doubts", r"doubt"),
    ("claims", r"critique$|criticism$"),
    ("feasibility", r"feasib"),
    ("advice", r"advis"),
    ("stack", r"(?:tech(?:nology)?|tool) ?stack"),
    ("masterplan", r"master plan"),
    ("scores", r"compar|scor|rating|ranking"),
    ("checklist", r"checklist|steps?\b|tasks?\b|actions?\b|actionable|to-?do"),
    ("risks", r"risk|threat|failure|mitigation"),
    ("differences", r"disagree|conflict|dissent|differ|trade-?off|tension|reject|alternat|contra"),
    ("gaps", r"weak|gap|missing|lack|critique|critic|objection|concern|challenge|flaw"),
    ("holds", r"strength|strong|hold|merit|works"),
    ("agreements", r"agree|common|consensus|shared|converg"),
    ("kept", r"unique|kept|keep|preserv|distinct|coverage|provenance|contribut|source|points?\b"),
    ("metrics", r"metric|measure|kpi|success|criteria|outcome|indicator|test|accept|verif"),
    ("limits", r"non-?functional|constraint|quality|secur|performan|complian|limit|standard"),
    ("dependencies", r"dependenc|prerequisite|integrat|interface"),
    ("plan", r"plan|phase|milestone|schedule|roadmap|timeline|strategy|sequence|epic|cost|budget"),
    ("features", r"feature|stor(?:y|ies)|mvp|scope|requirement|product|functional|deliverable"),
    ("parts", r"architect|tech|approach|design|component|system|stack|data|model|feasib|solution"),
    ("needs", r"business|case|need|problem|value|opportun|goal|objective|why|background|user"),
    ("questions", r"question|assumption|unknown|open|clarif"),
    ("verdict", r"recommend|verdict|guidance|decision|conclusion|next|advice|assess|improve"),
)

# What a prompt asks for as a whole.
TASKS: tuple[tuple[str, str], ...] = (
    ("checklist", r"checklist|paralysis|actionable|dependency-ordered|step by step"),
    ("plan", r"parenthesis|formal plan|master plan|milestones?|roadmap|phases"),
    ("merge", r"synthes\w+|merg\w+|combin\w+|reconcil\w+|unif(?:y|ied)|consolidat\w+|reduce"),
    ("critique", r"critiqu\w+|critic\w*|antithesis|objections?|weakness\w*|review"),
    ("propose", r"thesis|propos\w+|business case|design|build|create|develop|draft|migrate"),
)

# What a prompt asks for, by the kinds of the sections it wants; the first match decides.
TASK_KINDS: dict[str, frozenset[str]] = {
    "checklist": frozenset(("checklist", "advice")),
    "merge": frozenset(("proposal", "taken", "comparison", "decisions", "agreements")),
    "plan": frozenset(("masterplan",)),
    "critique": frozenset(("claims", "gaps", "holds", "feasibility")),
}

STOP_WORDS = frozenset(
    """a about above according across after again against all almost along already also although
    always am among an and another any anyone anything are around as at away be because been before
    being below between both but by can cannot could did do does doing done down during each either
    else enough etc even ever every everyone everything far few first for from had has have having
    he her here him his how however i if in instead into is it its itself just kind last later least
    less like lot many may me might mine more most much must my neither never next no nobody none
    nor not nothing now of off often on once one only onto or other others our out over own per
    please rather really said same several shall she should since so some someone something soon
    still such than that the their them themselves then there these they thing things this those
    three through thus to together too toward towards twice two under until up upon us usually very
    via was way ways we well were what whatever when where whether which while who whole whom whose
    why will with within without would yes yet you your ie eg don't doesn't isn't can't won't
    four five six seven eight nine ten hundred thousand million half second third
    day days week weeks month months year years hour hours minute minutes seconds today tomorrow
    budget city list lists section sections
    longer shorter larger smaller higher lower sooner
    euro euros dollar dollars percent number area areas lots bit got made sent lost left kept felt
    came went gone given taken written built bought paid told found held met understood
    able available bad best better big certain cheap clear common current different difficult
    early easy entire existing expensive fast full good great hard high important large
    late little long low main mixed new offline old online possible ready right short simple
    slow small special stable sure true usual various whole worse wrong""".split()
)

# Plain verbs in their base form; they end a phrase in any form but the one in -ing.
VERBS = frozenset(
    """add allow arrive ask avoid become begin believe belong borrow bring build buy call carry
    choose come compare complain connect consider contain convert cost cover create decide
    define depend describe determine develop discover draft drive eat enable ensure exist expect
    explain extend fail feel fill find finish fit follow forget gather generate get give go grow
    guarantee handle happen have hear help hold identify implement improve include increase
    inform introduce involve keep know lack learn leave let lose maintain make manage mean
    mention migrate mix move need notice obtain occur offer operate organise organize pay
    perform pick plan prefer prepare prevent produce propose protect prove provide publish put
    reach read receive recommend reduce refuse rely remain remember remove repair replace
    require respond run save say see seek seem select send serve share show solve speak specify
    spend spread start stay stop store struggle submit succeed suffer suggest support switch
    take talk teach tell tend think throw track treat try turn understand use verify wait want
    watch wear wish work worry write""".split()
)

# Nouns for people, beside those that end in -ers, -ors, -ists or -ians.
PEOPLE = frozenset(
    """users people customers patients students clients agents residents parents children families
    citizens guests members participants applicants accountants consultants tenants employees
    trainees attendees nurses staff colleagues""".split()
)
NOT_PEOPLE = frozenset(
    """numbers orders papers computers servers letters others sensors errors colors reminders
    containers parameters timers headers footers folders buffers registers characters answers
    offers centers layers filters matters chapters newsletters motors monitors doors floors factors
    vectors lists exists consists trackers powers covers considers delivers triggers brokers
    adapters routers clusters enters transfers drawers""".split()
)

# How a verb at the head of a request becomes the name of the work.
NOMINAL = {
    "migrate": "the migration of",
    "move": "the move of",
    "reduce": "the reduction of",
    "improve": "the improvement of",
    "replace": "the replacement of",
    "automate": "the automation of",
    "organise": "the organisation of",
    "organize": "the organisation of",
    "optimise": "the optimisation of",
    "optimize": "the optimisation of",
    "rewrite": "the rewriting of",
    "introduce": "the introduction of",
    "integrate": "the integration of",
    "evaluate": "the evaluation of",
    "compare": "the comparison of",
    "choose": "the choice of",
    "add": "the addition of",
}

"""Examples for each command, shown at the end of its help."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        'dialectic run "A booking service for a village hall."',
        'dialectic run "…" --models offline/architect,offline/skeptic*2 --out plans',
        "dialectic run --file brief.pdf --pause --resource domain_standards=rules.md",
        "dialectic run --file brief.md --budget 2.50 --dry-run",
    ),
    "status": ("dialectic status", "dialectic status 41ac --quote"),
    "watch": ("dialectic watch 41ac", "dialectic watch 41ac --json | jq .type"),
    "pause": ("dialectic pause 41ac",),
    "resume": ("dialectic resume 41ac", "dialectic resume 41ac --budget 5 --approve-spend"),
    "cancel": ("dialectic cancel 41ac",),
    "wallet balance": ("dialectic wallet balance", "dialectic wallet balance --org Bakers"),
    "wallet topup": (
        'dialectic wallet topup 20 --note "for May"',
        "dialectic wallet topup 50 --org Bakers --as alice",
    ),
    "wallet unlimited": ("dialectic wallet unlimited", "dialectic wallet unlimited --off"),
    "wallet history": ("dialectic wallet history --limit 10",),
    "wallet costs": ("dialectic wallet costs 41ac",),
    "wallet verify": ("dialectic wallet verify",),
    "export": (
        'dialectic export "Village hall" --out hall.zip',
        "dialectic export 41ac --finished",
    ),
    "import": ("dialectic import hall.zip",),
    "models list": ("dialectic models list",),
    "models sync": ("dialectic models sync openai",),
    "models test": ("dialectic models test offline/skeptic",),
    "process list": ("dialectic process list",),
    "process show": ("dialectic process show standard --models 4",),
    "process check": ("dialectic process check my-process",),
    "feedback": (
        'dialectic feedback 41ac thesis "Think of winter too."',
        "dialectic feedback 41ac antithesis --file notes.md --on 7f94",
    ),
    "edit": ("dialectic edit 7f94 --file better.md", "dialectic edit 7f94 --file - < better.md"),
    "rate": ("dialectic rate 7f94 4",),
    "next": ("dialectic next 41ac --out plans",),
    "iterate": ("dialectic iterate 41ac",),
    "retry": ("dialectic retry 41ac",),
    "regenerate": ("dialectic regenerate 7f94",),
    "show": ("dialectic show 7f94 > thesis.md", "dialectic show 7f94 --prompt"),
    "list": ("dialectic list", "dialectic list 41ac --all"),
    "diff": ("dialectic diff 7f94 a3c0",),
    "search": ('dialectic search "Village hall" "Who keeps the keys?" --limit 3',),
    "chat": (
        'dialectic chat "Name a bakery." --model offline/skeptic',
        "dialectic chat --list",
        'dialectic chat "Another one." --chat 9d02',
    ),
    "serve": ("dialectic serve", "dialectic serve --host 0.0.0.0 --port 8420 --no-worker"),
    "worker": ("dialectic worker --concurrency 32",),
    "simulate": (
        "dialectic simulate --port 8077 --script faults.toml",
        "dialectic simulate --faults",
    ),
    "doctor": ("dialectic doctor",),
    "user add": ("dialectic user add alice --token",),
    "user token": ("dialectic user token alice --scope read --expires 30",),
    "user list": ("dialectic user list", "dialectic user list alice"),
    "user revoke": ("dialectic user revoke alice --all",),
    "org create": ("dialectic org create Bakers --as alice",),
    "org list": ("dialectic org list Bakers --as alice",),
    "org add": ("dialectic org add Bakers bob --role admin --as alice",),
    "org remove": ("dialectic org remove Bakers bob --as alice",),
    "db migrate": ("dialectic db migrate",),
    "db url": ("dialectic db url",),
    "db shell": ("dialectic db shell",),
    "db stop": ("dialectic db stop",),
}


def add_examples(command: click.Command, name: str) -> None:
    """Add examples to the help of a command, or of each command in a group."""
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            add_examples(inner, f"{name} {inner_name}")
    elif command.epilog is None and name in EXAMPLES:
        # "\b" stops click from rewrapping the lines.
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {one}" for one in EXAMPLES[name])])

"""Facts as sentences, in many forms, drawn by seed. Knows no document."""

from __future__ import annotations

import random
from collections.abc import Callable


class Names:
    """Pools that facts and filler draw from; a value that was drawn for a fact is not drawn "
    "again."""

    FIRST = (
        "Ines Tomasz Adaeze Henrik Yuki Marisol Bogdan Farida Lorcan Siobhan Petra Dmitri "
        "Oluwaseun "
        "Katrin Mateus Zainab Ruben Agnes Kofi Leila Viggo Noor Emre Chiara Tobias Wanda Iker "
        "Salome"
    ).split()
    LAST = (
        "Okafor Lindqvist Moreau Tanaka Kowalczyk Ferreira Haddad Byrne Novak Castellano Petrov "
        "Ozturk "
        "Jansen Abara Virtanen Rossi Keller Dubois Mensah Horvat Soto Ramires Nyberg Falk Duarte "
        "Iyer"
    ).split()
    PLACES = (
        "Leuven Tartu Ghent Bergamo Cork Malmo Porto Graz Brno Aarhus Lille Turku Basel Vigo "
        "Kaunas "
        "Bilbao Utrecht Trieste Odense Linz Coimbra Szeged Bolzano Nantes Galway Zadar"
    ).split()
    FIRMS = (
        "Halvorsen Marine|Brightwell Seals|Corvid Analytics|Tessellate|Northmoor Dairy|Pellucid "
        "Labs|"
        "Osprey Freight|Quillon|Fennimore Trust|Larkspur Energy|Veldt Systems|Mosswood "
        "Press|Kestrel "
        "Tooling|Aubergine Media|Stonecrop|Thistle & Vane|Ravelin|Pomona Foods"
    ).split("|")
    THINGS = (
        "gasket|boiler|lathe|cold room|barcode scanner|side entrance|goods lift|spare "
        "key|generator|"
        "ledger|archive cellar|loading ramp|sprinkler|fuse box|courtyard gate|dishwasher|roof "
        "hatch|"
        "weighbridge|intercom|label printer|compost bin|handrail|skylight|turnstile"
    ).split("|")
    MONTHS = (
        "January February March April May June July August September October November December"
    ).split()

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._decks: dict[str, list[str]] = {}

    def draw(self, pool: str) -> str:
        deck = self._decks.get(pool)
        if not deck:
            deck = self._decks[pool] = list(getattr(self, pool))
            self.chance.shuffle(deck)
        return deck.pop()

    def person(self) -> str:
        return f"{self.draw('FIRST')} {self.draw('LAST')}"

    def day(self) -> str:
        return f"{self.chance.randint(1, 28)} {self.chance.choice(self.MONTHS)}"

    def number(self) -> str:
        form, chance = self.chance.randint(1, 3), self.chance
        if form == 1:
            return f"{chance.randint(11, 989)}"
        if form == 2:
            return f"{chance.randint(1, 890)},{chance.randint(100, 999)}"
        return f"{chance.randint(1, 99)}.{chance.randint(1, 9)}"


Form = Callable[[Names], tuple[str, tuple[str, ...]]]


def _money(n: Names) -> tuple[str, tuple[str, ...]]:
    firm, sum_ = n.draw("FIRMS"), n.number()
    return f"{firm} has offered {sum_} thousand euros for the option.", (firm, sum_)


def _person(n: Names) -> tuple[str, tuple[str, ...]]:
    person, thing = n.person(), n.draw("THINGS")
    return f"{person} alone may authorise work on the {thing}.", (person, thing)


def _deadline(n: Names) -> tuple[str, tuple[str, ...]]:
    place, day = n.draw("PLACES"), n.day()
    return f"The permit for the site in {place} lapses on {day}.", (place, day)


def _decision(n: Names) -> tuple[str, tuple[str, ...]]:
    thing, number = n.draw("THINGS"), n.number()
    return (
        f"It was decided to give up the {thing} as soon as it fails more than {number} times.",
        (thing, number),
    )


def _ban(n: Names) -> tuple[str, tuple[str, ...]]:
    thing = n.draw("THINGS")
    moment = n.chance.choice(
        ["before the inspectors have left", "while it rains", "on market days", "after dusk"]
    )
    return f"Nobody may touch the {thing} {moment}.", (thing, moment)


def _cause(n: Names) -> tuple[str, tuple[str, ...]]:
    thing = n.draw("THINGS")
    why = n.chance.choice(
        [
            "a swarm of wasps",
            "a forged invoice",
            "a cracked pipe",
            "an unpaid toll",
            "a lightning strike",
        ]
    )
    return f"The delay in spring goes back to {why} near the {thing}.", (why, thing)


def _share(n: Names) -> tuple[str, tuple[str, ...]]:
    share, place = f"{n.chance.randint(2, 97)} %", n.draw("PLACES")
    return f"Only {share} of those asked in {place} would pay in advance.", (share, place)


def _limit(n: Names) -> tuple[str, tuple[str, ...]]:
    thing, number = n.draw("THINGS"), n.number()
    return f"The {thing} cannot carry more than {number} kilograms.", (thing, number)


def _code(n: Names) -> tuple[str, tuple[str, ...]]:
    code = f"{n.chance.choice('KLMRTX')}{n.chance.choice('ABEHQ')}-{n.chance.randint(100, 9999)}"
    return f"The insurer lists the damage under {code}.", (code,)


def _version(n: Names) -> tuple[str, tuple[str, ...]]:
    version = f"{n.chance.randint(2, 9)}.{n.chance.randint(0, 19)}.{n.chance.randint(1, 30)}"
    firm = n.draw("FIRMS")
    return f"From release {version} on, {firm} refuses unsigned requests.", (version, firm)


def _vote(n: Names) -> tuple[str, tuple[str, ...]]:
    person, thing = n.person(), n.draw("THINGS")
    return f"{person} voted against the {thing} and wants that on record.", (person, thing)


def _exception(n: Names) -> tuple[str, tuple[str, ...]]:
    place = n.draw("PLACES")
    who = n.chance.choice(["beekeepers", "night nurses", "apprentices", "lodgers", "glaziers"])
    return f"In {place} the fee is waived for {who}.", (place, who)


def _swap(n: Names) -> tuple[str, tuple[str, ...]]:
    one, other = n.draw("THINGS"), n.draw("THINGS")
    return f"Unlike the {one}, the {other} belongs to the landlord.", (one, other)


def _wait(n: Names) -> tuple[str, tuple[str, ...]]:
    firm, weeks = n.draw("FIRMS"), n.chance.randint(3, 60)
    return f"{firm} needs {weeks} weeks' notice.", (firm, f"{weeks} weeks")


def _hour(n: Names) -> tuple[str, tuple[str, ...]]:
    hour, thing = (
        f"{n.chance.randint(5, 22)}:{n.chance.choice(['10', '25', '40', '55'])}",
        n.draw("THINGS"),
    )
    return f"Deliveries through the {thing} end at {hour} sharp.", (hour, thing)


def _heir(n: Names) -> tuple[str, tuple[str, ...]]:
    person, firm = n.person(), n.draw("FIRMS")
    return f"{person} sits on the board of {firm} too, which nobody had disclosed.", (person, firm)


# Half of the forms serve to tune, the other half only to report.
FORMS: tuple[tuple[Form, ...], tuple[Form, ...]] = (
    (_money, _person, _deadline, _decision, _ban, _share, _code, _wait),
    (_limit, _version, _vote, _exception, _swap, _cause, _hour, _heir),
)

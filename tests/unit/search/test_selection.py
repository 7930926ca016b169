"""What stays between statements is chosen as well as by a walk over all choices, which shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, combinations

import pytest

from polymap.resources import never
from polymap.search.chains import least_way
from polymap.search.programs import selection
from polymap.search.programs.selection import Around, Column, Residence, Selection
from tests.mistakes import mutant_of
from tests.times import few

Selections = Callable[..., Iterator[Selection]]


def graph(
    rng: random.Random, *, is_chain: bool
) -> tuple[list[Column], list[Residence], dict[int, int | None], dict[str, int]]:
    """Return parts, stays, rooms, and what each part needs: statements in a row (a chain: each tensor has two
    neighbours as users) or with edges that jump over others."""
    many, levels = rng.randint(2, 5), rng.choice(((1,), (1, 2)))
    users: dict[str, tuple[int, ...]] = {f"T{at}": (at, at + 1) for at in range(many - 1)}
    if not is_chain:
        for at in range(rng.randint(1, 2)):
            users[f"R{at}"] = tuple(sorted(rng.sample(range(many), rng.randint(2, many))))
    bits = {name: rng.randint(1, 6) for name in users}
    ends = [(at, at + 1) for at in range(many)]
    ends += [] if is_chain else [(at, at + 2) for at in range(many - 1) if rng.random() < 0.4]
    columns = [
        Column(
            begin,
            end,
            Fraction(rng.randint(20, 60), rng.choice((1, 2, 3))),
            {
                (name, level): Fraction(rng.randint(0, 9))
                for name, own in users.items()
                for level in levels
                if any(begin <= one < end for one in own)
            },
        )
        for begin, end in ends
    ]
    stays = [
        Residence((name, level), begin, end, bits[name], Fraction(rng.randint(0, 5)))
        for name, own in users.items()
        for level in levels
        for begin in range(many)
        for end in range(begin + 2, many + 1)
        if sum(begin <= one < end for one in own) > 1 and (not is_chain or (begin, end) == (own[0], own[1] + 1))
    ]
    return (
        columns,
        stays,
        {level: rng.choice((None, *range(3, 14))) for level in levels},
        {"seed": rng.randint(0, 10**9)},
    )


def cost_of(columns: list[Column], rooms: dict[int, int | None], seed: int, asked: Around) -> Fraction | None:
    """Return a cost that rises with what is taken, no less than what is left of the least, None without room."""
    column, rng = columns[asked.column], random.Random(f"{seed} {asked.column} {asked.held}")
    need, steep, value = rng.randint(0, 4), rng.randint(0, 2), column.least
    value -= sum((column.saved[place] for place in asked.held), Fraction(0)) * Fraction(rng.randint(0, 4), 4)
    for level, bits in asked.taken:
        room = rooms[level]
        if room is not None and bits + need > room:
            return None
        value += steep * bits
    return value


def all_choices(
    columns: list[Column], stays: list[Residence], rooms: dict[int, int | None], seed: int
) -> Iterator[Fraction]:
    """Yield the values of all choices, one by one."""
    many = max(each.end for each in columns)

    def ways(at: int) -> Iterator[tuple[int, ...]]:
        if at == many:
            yield ()
        for number, each in enumerate(columns):
            if each.begin == at:
                yield from ((number, *rest) for rest in ways(each.end))

    def is_legal(own: tuple[Residence, ...]) -> bool:
        for one, other in combinations(own, 2):
            if one.home[0] == other.home[0] and max(one.begin, other.begin) < min(one.end, other.end):
                return False
            first, last = sorted(((one.begin, one.end), (other.begin, other.end)))
            if first[0] < last[0] < first[1] < last[1]:
                return False
        return True

    subsets = chain.from_iterable(combinations(stays, size) for size in range(min(4, len(stays)) + 1))
    legal = [own for own in subsets if is_legal(own)]
    for way in ways(0):
        cuts = {columns[number].begin for number in way} | {many}
        for own in (each for each in legal if all({one.begin, one.end} <= cuts for one in each)):
            total: Fraction | None = sum((each.cost for each in own), Fraction(0))
            for number in way:
                here = [each for each in own if each.begin <= columns[number].begin < each.end]
                taken = {level: sum(each.bits for each in here if each.home[1] == level) for level in rooms}
                held = tuple(sorted(each.home for each in here if each.home in columns[number].saved))
                used = tuple(sorted((level, bits) for level, bits in taken.items() if bits))
                cost = cost_of(columns, rooms, seed, Around(number, held, used))
                if any(room is not None and taken[level] > room for level, room in rooms.items()):
                    cost = None
                total = None if cost is None or total is None else total + cost
            if total is not None:
                yield total


def found_and_least(seed: int, choices: Selections) -> tuple[Selection, Fraction]:
    """Return what is found for a random graph, and the least of all choices."""
    rng = random.Random(seed)
    while True:
        columns, stays, rooms, more = graph(rng, is_chain=seed % 3 == 0)
        if len(stays) <= 14:
            break
    asked = list[Around]()

    def ask(around: Around) -> Fraction | None:
        asked.append(around)
        return cost_of(columns, rooms, more["seed"], around)

    *_, last = choices(columns, stays, rooms, ask, never)
    assert len(asked) == len(set(asked))
    return last, min(all_choices(columns, stays, rooms, more["seed"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(200), 20))
def test_no_choice_costs_less(seed: int) -> None:
    last, least = found_and_least(seed, selection.selections)
    assert last.value == last.bound
    assert last.value == least


def test_costs_of_many_digits_lose_no_choice() -> None:
    """All that a part costs is saved by T around it; of such costs as integers CP-SAT finds no choice at all."""
    costs = {  # in billionths: least, saved by T
        (0, 1): (9_502_085_863, 5_534_161_716),
        (0, 3): (5_869_137_141, 4_676_633_429),
        (1, 2): (28_625_059_854, 0),
        (1, 4): (25_797_800_933, 1_816_629_581),
        (2, 3): (8_630_495_675, 4_388_881_743),
        (3, 4): (28_897_726_961, 5_071_677_567),
        (0, 4): (5_601_882_106, 5_601_882_106),
    }
    place, unit = ("T", 1), Fraction(1, 10**9)
    columns = [Column(*ends, least * unit, {place: saved * unit}) for ends, (least, saved) in costs.items()]
    stays = [Residence(place, 0, 4, 2, 598_757_003 * unit)]

    def ask(around: Around) -> Fraction:
        column = columns[around.column]
        return column.least - sum((column.saved[each] for each in around.held), Fraction(0))

    *_, last = selection.selections(columns, stays, {1: 3}, ask, never)
    assert last.value == stays[0].cost
    assert last.value * Fraction(999_999, 10**6) <= last.bound < last.value  # of costs that are rounded


MISTAKES = {
    "stays cross": ("if one[0] < other[0] < one[1] < other[1]:", "if False:"),
    "stays cut parts": ("any(column.begin < end < column.end for end in ends)", "False"),
    "a tensor stands twice": ("model.add_at_most_one(v for each, v in here if each.home[0] == name)", "pass"),
    "what is taken is forgotten": ("for level, bits in asked.taken:", "for level, bits in ():"),
    "nothing is saved": ("model.add(cost >= least - saved)", "model.add(cost >= least)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = MISTAKES[mistake]
    wrong = mutant_of(selection, old, new, monkeypatch)["selections"]
    for seed in range(60):
        last, least = found_and_least(seed, wrong)
        if last.value != least:
            return
    pytest.fail("no graph tells")


def random_chain(
    rng: random.Random,
) -> tuple[list[Column], list[Residence], dict[int, int | None], dict[int, int]]:
    """Return segments of a chain, stays around two neighbours that pass a tensor on, rooms, and what a statement needs
    of these itself."""
    many, levels = rng.randint(2, 9), rng.choice(((1,), (1, 2)))
    ends = [(at, at + 1) for at in range(many)]
    ends += [(at, end) for at in range(many) for end in range(at + 2, min(many, at + 4) + 1) if rng.random() < 0.5]
    parts = rng.choice((1, 3, 7))

    def cost(value: int) -> Fraction:
        return Fraction(value, parts)

    columns = [
        Column(
            begin,
            end,
            cost(rng.randint(20, 60) * (end - begin) ** rng.choice((0, 1))),
            {(f"T{at}", level): cost(rng.randint(0, 9)) for at in (begin, end) if 0 < at < many for level in levels},
        )
        for begin, end in ends
    ]
    stays = [
        Residence((f"T{at}", level), at - 1, at + 1, rng.randint(1, 6), cost(rng.randint(0, 5)))
        for at in range(1, many)
        for level in levels
    ]
    return columns, stays, {level: rng.choice((None, *range(3, 9))) for level in levels}, dict(enumerate(_needs(rng)))


def _needs(rng: random.Random) -> list[int]:
    return [rng.randint(0, 4) for _ in range(9)]


def paths(ends: dict[tuple[int, int], Fraction], begin: int, end: int) -> Iterator[Fraction]:
    """Yield what each way from the first statement to the last costs, one segment after the other."""
    if begin == end:
        yield Fraction(0)
    for one, cost in ends.items():
        if one[0] == begin:
            yield from (cost + rest for rest in paths(ends, one[1], end))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(200), 20))
def test_of_chains_the_selection_costs_what_the_shortest_path_does(seed: int) -> None:
    """Of a chain whose tensors stay around two statements the selection chooses among what the shortest path does: a
    pair with its tensor around it is one segment more. A plain walk over all paths is the third to say it."""
    columns, stays, rooms, needs = random_chain(random.Random(f"chain {seed}"))
    many = max(each.end for each in columns)

    def ask(asked: Around) -> Fraction | None:
        column = columns[asked.column]
        if any((room := rooms[level]) is not None and bits + needs[column.begin] > room for level, bits in asked.taken):
            return None
        return column.least - sum((column.saved[home] for home in asked.held), Fraction(0))

    values = {(each.begin, each.end): each.least for each in columns}
    alone = {each.begin: at for at, each in enumerate(columns) if each.end == each.begin + 1}
    *_, apart = selection.selections(columns, [], rooms, ask, never)
    assert apart.value == apart.bound
    assert apart.value == min(paths(values, 0, many))
    assert apart.value == sum(values[ends] for ends in least_way(0, many, values))
    for stay in stays:
        inside = [
            ask(Around(alone[at], (stay.home,), ((stay.home[1], stay.bits),))) for at in (stay.begin, stay.end - 1)
        ]
        ends = stay.begin, stay.end
        if None not in inside:
            cost = sum(filter(None, inside), stay.cost)
            values[ends] = min(values.get(ends, cost), cost)
    *_, found = selection.selections(columns, stays, rooms, ask, never)
    assert found.value == found.bound
    assert found.value == min(paths(values, 0, many))
    assert found.value == sum(values[ends] for ends in least_way(0, many, values))

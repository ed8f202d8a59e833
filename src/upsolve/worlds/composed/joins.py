"""Combinations of two goals: both in sequence, or one of them by a condition of the world."""

from collections.abc import Callable, Sequence
from textwrap import indent

from upsolve.worlds.composed.goal import Event, Goal, Outcome, Scene, World, asked, placed
from upsolve.worlds.composed.goals import listed
from upsolve.worlds.composed.names import Names

__all__ = ["HELD_OUT_JOINS", "JOINS", "capital"]


def then(names: Names, one: Goal, two: Goal) -> Goal:
    """Both goals in sequence."""
    text = names.phrase(f"First {one.text}. Then {two.text}.", f"{capital(one.text)}. After that, {two.text}.")

    def outcome(world: World) -> Outcome:
        first, second = one.outcome(world), two.outcome(world)
        return Outcome([*first.stages, *second.stages], {**first.moved, **second.moved})

    return joined("then", (one, two), text, f"{one.code}\n{two.code}", outcome)


def if_here(names: Names, one: Goal, two: Goal) -> Goal:
    """One of two goals, by whether a person or a thing is in a room."""
    room, other, is_person = names.rooms.pop(), names.rooms.pop(), names.rng.random() < 0.5
    name = (names.people if is_person else names.things).pop()
    shown = name if is_person else f"the {name}"
    text = names.phrase(
        f"Go to the {room}. If {shown} is there, {one.text}. Otherwise, {two.text}.",
        f"Look whether {shown} is in the {room}. If so, {one.text}; if not, {two.text}.",
    )
    code = f'robot.go_to("{room}")\nif robot.is_in_room("{name}"):\n{block(one)}\nelse:\n{block(two)}'
    where = {name: (room, other)}
    scene = Scene((room, other), people=where) if is_person else Scene((room, other), things=where)

    def outcome(world: World) -> Outcome:
        return choose_outcome(one, two, world, {**world.people, **world.things}[name] == room)

    return joined("if_here", (one, two), text, code, outcome, scene)


def if_answer(names: Names, one: Goal, two: Goal) -> Goal:
    """One of two goals, by a person's answer."""
    room, person, (question, word) = names.rooms.pop(), names.people.pop(), names.opinions.pop()
    text = names.phrase(
        f'Ask {person} in the {room} "{question}" with the options "yes" and "no". If the answer is yes, {one.text}. Otherwise, {two.text}.',
        f'Go to the {room} and ask {person} "{question}" with the options "yes" and "no". On a yes, {one.text}; on a no, {two.text}.',
    )
    asking = f'robot.ask("{person}", "{question}", ["yes", "no"])'
    code = f'robot.go_to("{room}")\nanswer = {asking}\nif answer == "yes":\n{block(one)}\nelse:\n{block(two)}'
    scene = Scene((room,), people={person: (room,)}, answers={person: (word, ("yes", "no"))})

    def outcome(world: World) -> Outcome:
        return choose_outcome(one, two, world, world.answers[person][word] == "yes", [asked(person, word)])

    return joined("if_answer", (one, two), text, code, outcome, scene)


def poll(names: Names, one: Goal, two: Goal) -> Goal:
    """One of two goals, by whether at least two of three people answer yes."""
    room, (question, word), people = names.rooms.pop(), names.opinions.pop(), [names.people.pop() for _ in range(3)]
    shown = f"{people[0]}, {people[1]} and {people[2]}"
    text = names.phrase(
        f'Go to the {room} and ask {shown} "{question}" with the options "yes" and "no". If at least two say yes, {one.text}. '
        f"Otherwise, {two.text}.",
        f'Ask {shown}, who are in the {room}, "{question}" with the options "yes" and "no". If two or more of them say yes, {one.text}; '
        f"if fewer, {two.text}.",
    )
    code = (
        f'robot.go_to("{room}")\nvotes = 0\nfor name in {listed(people)}:\n'
        f'    if robot.ask(name, "{question}", ["yes", "no"]) == "yes":\n        votes += 1\n'
        f"if votes >= 2:\n{block(one)}\nelse:\n{block(two)}"
    )
    scene = Scene((room,), people=dict.fromkeys(people, (room,)), answers=dict.fromkeys(people, (word, ("yes", "no"))))

    def outcome(world: World) -> Outcome:
        votes = sum(world.answers[person][word] == "yes" for person in people)
        return choose_outcome(one, two, world, votes >= 2, [asked(person, word) for person in people])

    return joined("poll", (one, two), text, code, outcome, scene)


def if_closed(names: Names, one: Goal, two: Goal) -> Goal:
    """One of two goals, by whether a door is closed."""
    room = names.rooms.pop()
    text = names.phrase(
        f"Try to go to the {room}. If its door is closed, {one.text}. Otherwise, {two.text}.",
        f"Go to the {room}. When its door is closed, {one.text}; when you get in, {two.text}.",
    )
    code = f'try:\n    robot.go_to("{room}")\nexcept DoorError:\n{block(one)}\nelse:\n{block(two)}'

    def outcome(world: World) -> Outcome:
        return choose_outcome(one, two, world, room in world.closed)

    return joined("if_closed", (one, two), text, code, outcome, Scene((room,), closed=(room,)))


def if_heavy(names: Names, one: Goal, two: Goal) -> Goal:
    """One of two goals, by whether a thing can be lifted."""
    room, thing = names.rooms.pop(), names.things.pop()
    text = names.phrase(
        f"Try to pick up the {thing} in the {room}. If it is too heavy, {one.text}. Otherwise, put it down again there and {two.text}.",
        f"Go to the {room} and lift the {thing}. When it is too heavy, {one.text}; when it is not, put it back in the same room and "
        f"{two.text}.",
    )
    code = (
        f'robot.go_to("{room}")\ntry:\n    robot.pick("{thing}")\nexcept WeightError:\n{block(one)}\n'
        f'else:\n    robot.place("{thing}")\n{block(two)}'
    )

    def outcome(world: World) -> Outcome:
        heavy = thing in world.heavy
        return choose_outcome(one, two, world, heavy, [] if heavy else [placed(thing, room)])

    return joined("if_heavy", (one, two), text, code, outcome, Scene((room,), things={thing: (room,)}, heavy=(thing,)))


JOINS = (then, if_here, if_answer, poll, if_closed)
"""Joins of training and test tasks."""
HELD_OUT_JOINS = (if_heavy,)
"""Joins of hard tasks only: no other program needs ``WeightError``."""


def joined(
    name: str, goals: tuple[Goal, Goal], text: str, code: str, outcome: Callable[[World], Outcome], scene: Scene | None = None
) -> Goal:
    """Return the joined goal; its scene is that of the join and of both goals."""
    one, two = goals
    first = "\n".join(dict.fromkeys(goal.first for goal in goals if goal.first))
    whole_scene = (scene or Scene()) + one.scene + two.scene
    return Goal(f"{name}({one.name},{two.name})", text, code, whole_scene, outcome, first, branches=2 if scene else 1)


def choose_outcome(one: Goal, two: Goal, world: World, holds: bool, before: Sequence[Event] = ()) -> Outcome:
    """Return the outcome of the goal selected by the condition, after the events of the join."""
    outcome = (one if holds else two).outcome(world)
    return Outcome([before, *outcome.stages] if before else outcome.stages, outcome.moved, branch=int(holds))


def block(goal: Goal) -> str:
    """Return a goal's lines, indented once."""
    return indent(goal.code, "    ")


def capital(text: str) -> str:
    """Return a sentence with a capital first letter."""
    return text[:1].upper() + text[1:]

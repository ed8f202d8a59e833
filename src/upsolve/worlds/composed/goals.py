"""Goals of composed tasks, and joins of two goals. A goal can start in any room, so that any two can be joined."""

from collections.abc import Callable, Sequence
from textwrap import indent

from upsolve.worlds.composed.goal import Event, Goal, Names, Outcome, Scene, World, placed, question_event, speech_event

__all__ = ["GOALS", "HELD_OUT_GOALS", "HELD_OUT_JOINS", "JOINS", "SEARCHES", "capital"]


def searching(name: str, body: str) -> str:
    """Return a loop over all rooms that runs ``body`` in the room of a person or thing."""
    return (
        "for room in robot.get_all_rooms():\n"
        "    robot.go_to(room)\n"
        f'    if robot.is_in_room("{name}"):\n'
        f"{indent(body, ' ' * 8)}\n"
        "        break"
    )


def report(names: Names) -> Goal:
    """Go somewhere and say something."""
    room, words = names.rooms.pop(), names.messages.pop()
    text = names.phrase(f'go to the {room} and say "{words}"', f'say "{words}" in the {room}')
    code = f'robot.go_to("{room}")\nrobot.say("{words}")'
    return Goal("report", text, code, Scene((room,)), lambda _: Outcome([[speech_event(words, room)]]))


def fetch(names: Names) -> Goal:
    """Carry a thing from one room to another."""
    thing, start, goal = names.things.pop(), names.rooms.pop(), names.rooms.pop()
    text = names.phrase(
        f"bring the {thing} from the {start} to the {goal}", f"carry the {thing}, which is in the {start}, to the {goal}"
    )
    code = f'robot.go_to("{start}")\nrobot.pick("{thing}")\nrobot.go_to("{goal}")\nrobot.place("{thing}")'
    scene = Scene((start, goal), things={thing: (start,)})
    return Goal("fetch", text, code, scene, lambda _: Outcome([[placed(thing, goal)]], {thing: goal}))


def find(names: Names) -> Goal:
    """Look for a thing and carry it somewhere."""
    thing, goal = names.things.pop(), names.rooms.pop()
    text = names.phrase(f"find the {thing} and bring it to the {goal}", f"look for the {thing} and put it in the {goal}")
    code = searching(thing, f'robot.pick("{thing}")') + f'\nrobot.go_to("{goal}")\nrobot.place("{thing}")'
    scene = Scene((goal,), things={thing: ()})
    return Goal("find", text, code, scene, lambda _: Outcome([[placed(thing, goal)]], {thing: goal}))


def which(names: Names) -> Goal:
    """Look for a thing and report its room elsewhere."""
    thing, goal = names.things.pop(), names.rooms.pop()
    text = names.phrase(
        f"find out in which room the {thing} is and say the name of that room in the {goal}",
        f"look for the {thing}, leave it where it is, and say in the {goal} which room it is in",
    )
    code = f'{searching(thing, "found = room")}\nrobot.go_to("{goal}")\nrobot.say(found)'
    scene = Scene((goal,), things={thing: ()})
    return Goal("which", text, code, scene, lambda world: Outcome([[speech_event(world.things[thing], goal)]]))


def greet(names: Names) -> Goal:
    """Look for a person and say something there."""
    person, words = names.people.pop(), names.messages.pop()
    text = names.phrase(f'find {person} and say "{words}" there', f'look for {person} and say "{words}" in that room')
    code = searching(person, f'robot.say("{words}")')
    scene = Scene(people={person: ()})
    return Goal("greet", text, code, scene, lambda world: Outcome([[speech_event(words, world.people[person])]]))


def patrol(names: Names) -> Goal:
    """Say something in every room."""
    words = names.messages.pop()
    text = names.phrase(f'visit every room and say "{words}" in each', f'say "{words}" in every room of the building')
    code = f'for room in robot.get_all_rooms():\n    robot.go_to(room)\n    robot.say("{words}")'
    return Goal("patrol", text, code, Scene(), lambda world: Outcome([[speech_event(words, room) for room in world.rooms]]))


def relay(names: Names) -> Goal:
    """Ask a person and report the answer elsewhere."""
    person, start, goal = names.people.pop(), names.rooms.pop(), names.rooms.pop()
    question, word, options = names.choices.pop()
    shown = " and ".join(f'"{option}"' for option in options)
    text = names.phrase(
        f'ask {person} in the {start} "{question}" with the options {shown} and say the answer in the {goal}',
        f'go to the {start}, ask {person} "{question}" with the options {shown}, and repeat the answer in the {goal}',
    )
    code = (
        f'robot.go_to("{start}")\nanswer = robot.ask("{person}", "{question}", {listed(options)})\n'
        f'robot.go_to("{goal}")\nrobot.say(answer)'
    )
    scene = Scene((start, goal), people={person: (start,)}, answers={person: (word, options)})

    def outcome(world: World) -> Outcome:
        return Outcome([[question_event(person, word)], [speech_event(world.answers[person][word], goal)]])

    return Goal("relay", text, code, scene, outcome)


def choose(names: Names) -> Goal:
    """Ask a person which of two things is wanted, and bring it."""
    person, start, store = names.people.pop(), names.rooms.pop(), names.rooms.pop()
    things, (question, word) = (names.things.pop(), names.things.pop()), names.wishes.pop()
    shown = f'"{things[0]}" and "{things[1]}"'
    text = names.phrase(
        f'ask {person} in the {start} "{question}" with the options {shown} and bring that thing from the {store} to the {start}',
        f'go to the {start}, ask {person} "{question}" with the options {shown}, and fetch the answer from the {store}',
    )
    code = (
        f'robot.go_to("{start}")\nanswer = robot.ask("{person}", "{question}", {listed(things)})\n'
        f'robot.go_to("{store}")\nrobot.pick(answer)\nrobot.go_to("{start}")\nrobot.place(answer)'
    )
    people, where = {person: (start,)}, dict.fromkeys(things, (store,))

    def outcome(world: World) -> Outcome:
        chosen_thing = world.answers[person][word]
        return Outcome([[question_event(person, word)], [placed(chosen_thing, start)]], {chosen_thing: start})

    return Goal("choose", text, code, Scene((start, store), people, where, {person: (word, things)}), outcome)


def collect(names: Names) -> Goal:
    """Carry two things, one after the other."""
    things, start, goal = (names.things.pop(), names.things.pop()), names.rooms.pop(), names.rooms.pop()
    text = names.phrase(
        f"bring the {things[0]} and the {things[1]} from the {start} to the {goal}",
        f"carry the {things[0]} and then the {things[1]} from the {start} to the {goal}",
    )
    code = (
        f'for thing in {listed(things)}:\n    robot.go_to("{start}")\n    robot.pick(thing)\n'
        f'    robot.go_to("{goal}")\n    robot.place(thing)'
    )
    scene = Scene((start, goal), things=dict.fromkeys(things, (start,)))
    moved = dict.fromkeys(things, goal)
    return Goal("collect", text, code, scene, lambda _: Outcome([[placed(thing, goal) for thing in things]], moved))


def repeat(names: Names) -> Goal:
    """Say something several times."""
    room, words, times = names.rooms.pop(), names.messages.pop(), names.rng.randint(2, 5)
    text = names.phrase(f'go to the {room} and say "{words}" {times} times', f'say "{words}" {times} times in the {room}')
    code = f'robot.go_to("{room}")\nfor _ in range({times}):\n    robot.say("{words}")'
    return Goal("repeat", text, code, Scene((room,)), lambda _: Outcome([[speech_event(words, room)] * times]))


def number(names: Names) -> Goal:
    """Say how many of three people are in a room."""
    room, other, people = names.rooms.pop(), names.rooms.pop(), [names.people.pop() for _ in range(3)]
    shown = f"{people[0]}, {people[1]} and {people[2]}"
    text = names.phrase(
        f"go to the {room} and say how many of {shown} are there, as digits",
        f"count how many of {shown} are in the {room} and say the number there, as digits",
    )
    code = (
        f'robot.go_to("{room}")\ncount = 0\nfor name in {listed(people)}:\n    if robot.is_in_room(name):\n        count += 1\n'
        "robot.say(str(count))"
    )

    def outcome(world: World) -> Outcome:
        return Outcome([[speech_event(str(sum(world.people[person] == room for person in people)), room)]])

    return Goal("number", text, code, Scene((room, other), people=dict.fromkeys(people, (room, other))), outcome)


def size(names: Names) -> Goal:
    """Say how many rooms there are."""
    room = names.rooms.pop()
    text = names.phrase(
        f"go to the {room} and say how many rooms the building has, as digits",
        f"say the number of rooms, as digits, in the {room}",
    )
    code = f'robot.go_to("{room}")\nrobot.say(str(len(robot.get_all_rooms())))'
    return Goal("size", text, code, Scene((room,)), lambda world: Outcome([[speech_event(str(len(world.rooms)), room)]]))


def detour(names: Names) -> Goal:
    """Go to another room if a door is closed, and say something."""
    room, other, words = names.rooms.pop(), names.rooms.pop(), names.messages.pop()
    text = names.phrase(
        f'go to the {room}, or to the {other} when the door of the {room} is closed, and say "{words}" there',
        f'say "{words}" in the {room} or, when its door is closed, in the {other}',
    )
    code = f'try:\n    robot.go_to("{room}")\nexcept DoorError:\n    robot.go_to("{other}")\nrobot.say("{words}")'

    def outcome(world: World) -> Outcome:
        return Outcome([[speech_event(words, other if room in world.closed else room)]])

    return Goal("detour", text, code, Scene((room, other), closed=(room,)), outcome)


def back(names: Names) -> Goal:
    """Return to the initial room."""
    words = names.messages.pop()
    text = names.phrase(
        f'go back to the room in which you began and say "{words}" there',
        f'return to where you started and say "{words}" there',
    )
    code, first = f'robot.go_to(start)\nrobot.say("{words}")', "start = robot.get_current_location()"
    return Goal("back", text, code, Scene(), lambda world: Outcome([[speech_event(words, world.robot)]]), first)


def listed(items: Sequence[str]) -> str:
    """Return a list of strings as Python source."""
    return "[" + ", ".join(f'"{item}"' for item in items) + "]"


GOALS = (report, fetch, find, which, greet, patrol, relay, choose, collect, repeat, number, size, detour)
"""Goals of training and test tasks."""
HELD_OUT_GOALS = (back,)
"""Goals of hard tasks only: no other program needs ``get_current_location``."""
SEARCHES = ("find", "which", "greet", "patrol")
"""Goals that visit every room and thus need all doors open."""


def then(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: both goals in sequence."""
    text = names.phrase(f"First {one.text}. Then {two.text}.", f"{capital(one.text)}. After that, {two.text}.")

    def outcome(world: World) -> Outcome:
        first, second = one.outcome(world), two.outcome(world)
        return Outcome([*first.stages, *second.stages], {**first.moved, **second.moved})

    return joined("then", (one, two), text, f"{one.code}\n{two.code}", outcome)


def if_here(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: the first of two goals if a person or a thing is in a room, else the second."""
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

    goals = (one, two)
    return either("if_here", goals, text, code, scene=scene, holds=lambda world: {**world.people, **world.things}[name] == room)


def if_answer(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: one of two goals, depending on a person's answer."""
    room, person, (question, word) = names.rooms.pop(), names.people.pop(), names.opinions.pop()
    text = names.phrase(
        f'Ask {person} in the {room} "{question}" with the options "yes" and "no". If the answer is yes, {one.text}. Otherwise, {two.text}.',
        f'Go to the {room} and ask {person} "{question}" with the options "yes" and "no". On a yes, {one.text}; on a no, {two.text}.',
    )
    asking = f'robot.ask("{person}", "{question}", ["yes", "no"])'
    code = f'robot.go_to("{room}")\nanswer = {asking}\nif answer == "yes":\n{block(one)}\nelse:\n{block(two)}'
    scene = Scene((room,), people={person: (room,)}, answers={person: (word, ("yes", "no"))})
    asks = [question_event(person, word)]
    return either(
        "if_answer", (one, two), text, code, scene, lambda world: world.answers[person][word] == "yes", lambda _: asks
    )


def poll(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: the first of two goals if at least two of three people answer yes, else the second."""
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

    def holds(world: World) -> bool:
        return sum(world.answers[person][word] == "yes" for person in people) >= 2

    return either("poll", (one, two), text, code, scene, holds, lambda _: [question_event(person, word) for person in people])


def if_closed(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: one of two goals, depending on whether a door is closed."""
    room = names.rooms.pop()
    text = names.phrase(
        f"Try to go to the {room}. If its door is closed, {one.text}. Otherwise, {two.text}.",
        f"Go to the {room}. When its door is closed, {one.text}; when you get in, {two.text}.",
    )
    code = f'try:\n    robot.go_to("{room}")\nexcept DoorError:\n{block(one)}\nelse:\n{block(two)}'
    scene = Scene((room,), closed=(room,))
    return either("if_closed", (one, two), text, code, scene, lambda world: room in world.closed)


def if_heavy(names: Names, one: Goal, two: Goal) -> Goal:
    """Goal: one of two goals, depending on whether a thing can be lifted."""
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
    scene, back = Scene((room,), things={thing: (room,)}, heavy=(thing,)), [placed(thing, room)]
    return either(
        "if_heavy", (one, two), text, code, scene, lambda world: thing in world.heavy, lambda heavy: [] if heavy else back
    )


JOINS = (then, if_here, if_answer, poll, if_closed)
"""Joins of training and test tasks."""
HELD_OUT_JOINS = (if_heavy,)
"""Joins of hard tasks only: no other program needs ``WeightError``."""


def joined(
    name: str, goals: tuple[Goal, Goal], text: str, code: str, outcome: Callable[[World], Outcome], scene: Scene | None = None
) -> Goal:
    """Return the joined goal; its scene combines those of the join and of both goals."""
    one, two = goals
    first = "\n".join(dict.fromkeys(goal.first for goal in goals if goal.first))
    whole_scene = (scene or Scene()) + one.scene + two.scene
    return Goal(f"{name}({one.name},{two.name})", text, code, whole_scene, outcome, first, branches=2 if scene else 1)


def either(
    name: str,
    goals: tuple[Goal, Goal],
    text: str,
    code: str,
    scene: Scene,
    holds: Callable[[World], bool],
    before: Callable[[bool], Sequence[Event]] = lambda _: (),
) -> Goal:
    """Return the first goal in worlds in which a condition holds, else the second, after the events by which the join tests the condition."""

    def outcome(world: World) -> Outcome:
        met = holds(world)
        chosen, events = goals[not met].outcome(world), before(met)
        return Outcome([events, *chosen.stages] if events else chosen.stages, chosen.moved, branch=int(met))

    return joined(name, goals, text, code, outcome, scene)


def block(goal: Goal) -> str:
    """Return a goal's lines, indented once."""
    return indent(goal.code, "    ")


def capital(text: str) -> str:
    """Return a sentence with a capital first letter."""
    return text[:1].upper() + text[1:]

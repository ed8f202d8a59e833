import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from upsolve.archive.split import find_leaks, split_archive
from upsolve.archive.store import Archive
from upsolve.config import DataConfig
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest
from upsolve.types import Attempt, Status, Task
from upsolve.verify.judge.plans import judge, judge_all
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.worlds.composed.goal import Names
from upsolve.worlds.composed.goals import HELD_OUT_GOALS, HELD_OUT_JOINS, JOINS, fetch, if_answer, relay, report
from upsolve.worlds.composed.programs import KINDS, STYLES, mutated, plain, printed, restyled
from upsolve.worlds.composed.source import WORLDS, checks, compositions, read, rehearse, start, worlds_of
from upsolve.worlds.contract import IDLE
from upsolve.worlds.tasks import BUILT_IN

ROBOT = BUILT_IN["robot"]
SETTINGS = JudgeSettings(Limits(wall_seconds=20, cpu_seconds=5))


def split_rows(rows):
    rows = list(rows)
    return [row for row in rows if isinstance(row, Task)], [row for row in rows if isinstance(row, Attempt)]


@pytest.fixture(scope="module")
def tasks_and_attempts():
    """Tasks and attempts."""
    return split_rows(read(ROBOT, tasks=24))


def extra(record):
    return json.loads(record.extra)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_records_and_more_tasks_leave_the_first_as_they_are(tasks_and_attempts):
    tasks, attempts = tasks_and_attempts
    again = split_rows(islice(read(ROBOT, tasks=30), len(tasks) + len(attempts)))
    assert again == (tasks, attempts)
    assert split_rows(read(ROBOT, tasks=2, seed=1))[0] != tasks[:2]


def test_compositions_of_480_tasks():
    """Of 24 tasks two are single goals, two are hard; 5 joins of 13 goals, less those that need open doors, are enough for 400 others."""
    made = list(islice(compositions(0), 480))
    names = [one.name for one, _ in made]
    assert Counter(one.difficulty for one, _ in made) == {"easy": 40, "medium": 400, "hard": 40}
    assert len(set(names)) == 13 + 400 + 40
    assert all(number == 0 for one, number in made if one.difficulty != "easy")  # no composition twice
    splits = Counter(one.split(0) for one, _ in made if one.difficulty == "medium")
    assert 80 <= splits["test"] <= 120 and 15 <= splits["dev"] <= 50
    # nothing in a test composition is new but the composition: each join, and each goal in each place, is in one to train on
    seen = {part for one, _ in made if one.split(0) == "train" for part in parts(one)}
    assert {part for one, _ in made if one.split(0) == "test" and not one.hard for part in parts(one)} <= seen


def parts(one):
    return [one.join, *enumerate(one.goals)] if one.join else []


def test_a_composition_is_in_one_split_and_held_out_calls_are_in_hard_tasks_only(tasks_and_attempts):
    tasks, attempts = tasks_and_attempts
    by_id = {task.task_id: task for task in tasks}
    made = list(islice(compositions(3), 960))
    where = {}
    for one, _ in made:
        where.setdefault(one.name, set()).add(one.split(3))
    assert all(len(splits) == 1 for splits in where.values())
    for one, _ in made:
        held_out = set(one.goals) & {*HELD_OUT_GOALS} or one.join in HELD_OUT_JOINS
        assert bool(held_out) == one.hard == (one.difficulty == "hard")
    for task in tasks:
        held_out = "get_current_location" in extra(task)["calls"] or "WeightError" in task.reference
        assert held_out == (task.difficulty == "hard")
    for attempt in attempts:
        if "get_current_location" in attempt.code or "WeightError" in attempt.code:
            assert by_id[attempt.task_id].difficulty == "hard"


def test_tasks_are_split_as_they_are_recorded_without_leaks(tmp_path):
    archive = Archive.create(tmp_path / "archive")
    assert ingest(archive, "composed", "robot", tasks=24, seed=1).added["tasks"] == 24
    split = split_archive(archive, DataConfig(split_by="split")).tasks
    assert {name: {extra(task)["split"] for task in some} for name, some in split.items()} == {
        name: {name} for name in ("train", "dev", "test")
    }
    assert not find_leaks([*split["train"], *split["dev"]], split["test"])


def test_a_program_and_checks_worked_by_hand():
    names = Names(Random(0))
    names.rooms, names.people, names.things = ["attic", "gym", "porch", "lobby"], ["Bo"], ["cup"]
    names.messages, names.opinions = ["all clear"], [("Are you ready?", "ready")]
    one, two = report(names), fetch(names)  # the lobby; from the porch to the gym
    goal = if_answer(names, one, two)
    assert plain(goal) == (
        "def run(robot):\n"
        '    robot.go_to("attic")\n'
        '    answer = robot.ask("Bo", "Are you ready?", ["yes", "no"])\n'
        '    if answer == "yes":\n'
        '        robot.go_to("lobby")\n'
        '        robot.say("all clear")\n'
        "    else:\n"
        '        robot.go_to("porch")\n'
        '        robot.pick("cup")\n'
        '        robot.go_to("gym")\n'
        '        robot.place("cup")\n'
    )
    assert goal.name == "if_answer(report,fetch)"
    for world in worlds_of(goal, Random(0)):
        asked = {"ask": ["Bo", {"has": "ready"}, None]}
        things = dict(world.things)
        if world.answers["Bo"]["ready"] == "yes":
            said = {"say": ["all clear"], "when": {"location": "lobby"}}
            wanted = [{"count": [{"say": None}, 1]}, {"count": [said, 1]}, {"exists": asked}, {"before": [asked, said]}]
        else:
            placed, things["cup"] = {"place": ["cup"], "when": {"location": "gym"}}, "gym"
            wanted = [{"never": {"say": None}}, {"exists": asked}, {"before": [asked, placed]}]
        assert checks(goal.outcome(world), world) == [*wanted, {"terminal": {"holding": "", "at": things}}]
        assert start(world)["people"]["Bo"] == {"room": "attic", "answers": world.answers["Bo"]}


@pytest.mark.parametrize("join", [*JOINS, *HELD_OUT_JOINS])
def test_worlds_go_every_way_and_differ(join):
    names = Names(Random(5))
    goal = join(names, report(names), relay(names))
    made = worlds_of(goal, Random(1))
    assert len(made) == WORLDS and len({goal.outcome(world).branch for world in made}) == goal.branches
    assert len({json.dumps(start(world)) for world in made}) == WORLDS
    assert len(worlds_of(goal, Random(1), 5)) == 5


def test_programs_that_do_nothing_pass_nowhere(tasks_and_attempts):
    tasks, _ = tasks_and_attempts
    for task in tasks:
        for code in IDLE:
            assert rehearse(code, task)[0] is not Status.PASSED
        world = replace(task, tests=task.tests[:1])
        assert rehearse("def run(robot):\n    pass\n", world) == (Status.FAILED, "")


def test_every_attempt_is_judged_as_it_was_rehearsed(tasks_and_attempts):
    """24 tasks: references and other styles pass, and each wrong program fails as its ``extra`` says."""
    tasks, attempts = tasks_and_attempts
    by_id = {task.task_id: task for task in tasks}
    agrees(attempts, by_id)
    made = Counter(extra(attempt)["made"] for attempt in attempts)
    assert made["plain"] == 24 and made["restyled"] >= 24 and len(made) >= 17
    right = Counter(attempt.task_id for attempt in attempts if extra(attempt)["rehearsed"] == "passed")
    assert all(1 <= right[name] <= 3 for name in by_id) and len(attempts) - right.total() >= 4 * 24


@pytest.mark.slow
def test_every_attempt_of_480_tasks_is_judged_as_it_was_rehearsed():
    tasks, attempts = split_rows(read(ROBOT))
    assert len({task.reference for task in tasks}) == len({task.prompt for task in tasks}) == 480
    assert {extra(attempt)["made"] for attempt in attempts} == {"plain", "restyled", *KINDS}
    agrees(attempts, {task.task_id: task for task in tasks})


def agrees(attempts, tasks):
    verdicts = judge_all([(tasks[attempt.task_id], attempt) for attempt in attempts], SETTINGS)
    for attempt, verdict in zip(attempts, verdicts, strict=True):
        said = extra(attempt)
        assert (verdict.status, verdict.error_type) == (said["rehearsed"], said["error"]), attempt.code


ASKING = (
    'def run(robot):\n    robot.go_to("gym")\n    answer = robot.ask("Bo", "Ready?", ["yes", "no"])\n    robot.say(answer)\n'
)
LOOP = 'def run(robot):\n    for room in robot.get_all_rooms():\n        robot.go_to(room)\n        if robot.is_in_room("cup"):\n            break\n'
IF = 'def run(robot):\n    if robot.is_in_room("cup"):\n        robot.say("a")\n    else:\n        robot.pick("b")\n'
TRY = 'def run(robot):\n    try:\n        robot.go_to("gym")\n    except DoorError:\n        robot.go_to("attic")\n'


@pytest.mark.parametrize(
    ("kind", "code", "old", "new"),
    [
        ("argument_order", ASKING, '"Bo", "Ready?"', '"Ready?", "Bo"'),
        ("bare_calls", IF, "robot.", ""),
        ("exchanged_branches", IF, "if robot", "if not robot"),
        ("left_out", ASKING, '    robot.go_to("gym")\n', ""),
        ("missing_options", ASKING, ', ["yes", "no"]', ""),
        ("no_end", LOOP, "break", "pass"),
        ("not_caught", TRY, TRY[16:], '    robot.go_to("gym")\n'),
        ("number_said", "def run(robot):\n    robot.say(str(3))\n", "str(3)", "3"),
        ("printed_words", ASKING, "robot.say", "print"),
        ("return_in_loop", LOOP, "break", "break\n        return"),
        (
            "wrong_order",
            'def run(robot):\n    robot.pick("a")\n    robot.go_to("b")\n',
            'pick("a")\n    robot.go_to("b")',
            'go_to("b")\n    robot.pick("a")',
        ),
    ],
)
def test_mistakes_worked_by_hand(kind, code, old, new):
    assert mutated(code, kind, Random(0)) == code.replace(old, new)


@pytest.mark.parametrize(
    ("kind", "code", "ways"),
    [
        ("first_part", ASKING, {ASKING.rpartition("    answer")[0], ASKING.rpartition("    robot")[0]}),
        ("no_condition", IF, {f"def run(robot):\n    robot.{done}\n" for done in ('say("a")', 'pick("b")')}),
        ("one_less", LOOP, {LOOP.replace("()", f"()[{part}]") for part in ("1:", ":-1")}),
        ("one_less", ASKING.replace("answer)", "answer)").replace('["yes", "no"]', "[]"), {""}),
        (
            "unknown_call",
            'def run(robot):\n    robot.ask("a")\n',
            {f'def run(robot):\n    robot.{name}("a")\n' for name in ("question", "ask_person")},
        ),
        ("wrong_room", TRY, {TRY.replace("gym", "attic"), TRY.replace("attic", "gym")}),
        (
            "malformed",
            LOOP[:16] + "    robot.pick(1)\n",
            {"def run(robot)\n    robot.pick(1)\n", "def run(robot):\n    robot.pick(1\n"},
        ),
    ],
)
def test_mistakes_that_can_be_in_several_places(kind, code, ways):
    assert {mutated(code, kind, Random(seed)) for seed in range(30)} == ways


@pytest.mark.parametrize(
    ("style", "code", "wanted"),
    [
        (
            "early",
            IF,
            'def run(robot):\n    if robot.is_in_room("cup"):\n        robot.say("a")\n        return\n    robot.pick("b")\n',
        ),
        (
            "indexed",
            LOOP,
            LOOP.replace(
                "for room in robot.get_all_rooms():\n",
                "rooms = robot.get_all_rooms()\n    for i in range(len(rooms)):\n        room = rooms[i]\n",
            ),
        ),
        (
            "inverted",
            IF,
            'def run(robot):\n    if not robot.is_in_room("cup"):\n        robot.pick("b")\n    else:\n        robot.say("a")\n',
        ),
        ("named", IF, IF.replace('    if robot.is_in_room("cup")', '    is_here = robot.is_in_room("cup")\n    if is_here')),
        ("renamed", ASKING, ASKING.replace("answer", "reply")),
        (
            "tuples",
            'def run(robot):\n    for name in ["A", "B"]:\n        robot.say(name)\n',
            'def run(robot):\n    for name in ("A", "B"):\n        robot.say(name)\n',
        ),
        (
            "helpers",
            "def run(robot):\n" + 2 * '    robot.go_to("gym")\n    robot.say("a")\n',
            "def run(robot):\n\n    def say_in(room, text):\n        robot.go_to(room)\n        robot.say(text)\n"
            + 2 * '    say_in("gym", "a")\n',
        ),
    ],
)
def test_styles_worked_by_hand(style, code, wanted):
    import ast

    assert printed(STYLES[style](ast.parse(code))) == wanted


def test_all_programs_are_printed_alike(tasks_and_attempts):
    """Neither quotes nor empty lines tell a right program from a wrong one."""
    _, attempts = tasks_and_attempts
    import ast

    for attempt in attempts:
        if extra(attempt)["made"] != "malformed":
            assert printed(ast.parse(attempt.code)) == attempt.code
    assert printed(ast.parse("x = 'it''s \"so\"'")) == 'x = "its \\"so\\""\n'


def test_styles_keep_what_a_program_does(tasks_and_attempts):
    tasks, _ = tasks_and_attempts
    for task in tasks:
        for seed in range(3):
            assert rehearse(restyled(task.reference, Random(seed)), task) == (Status.PASSED, "")


def test_an_endless_program_is_played_to_the_limit_of_actions(tasks_and_attempts):
    tasks, _ = tasks_and_attempts
    code = "def run(robot):\n    while True:\n        try:\n            robot.get_all_rooms()\n        except Exception:\n            pass\n"
    assert rehearse(code, tasks[0]) == (Status.TIMEOUT, "")
    assert judge(tasks[0], Attempt(tasks[0].task_id, code), SETTINGS).status is Status.TIMEOUT


def test_option_docs_sets_the_description_of_methods_in_the_prompt():
    (none, *_), (names, *_), (full, *_) = (split_rows(read(ROBOT, tasks=1, docs=docs))[0] for docs in ("none", "names", "full"))
    assert "is_in_room" not in none.prompt and "DoorError" not in none.prompt
    assert (
        "ask(person, question, options)" in names.prompt and "DoorError" in names.prompt and "Asks a person" not in names.prompt
    )
    assert "`ask(person: str, question: str, options: list[str]) -> str`: Asks a person" in full.prompt
    assert {task.prompt.partition("Task: ")[2] for task in (none, names, full)} == {none.prompt.partition("Task: ")[2]}
    assert none.tests == full.tests and none.reference == full.reference


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"docs": "some"}, {"worlds": 3}])
def test_options_out_of_range_are_named(wrong):
    with pytest.raises(
        SourceError, match=f"tasks >= 1, docs one of none, names, full, worlds >= 4; .*{next(iter(wrong.values()))}"
    ):
        list(read(ROBOT, **wrong))


def test_another_domain_is_refused(tmp_path):
    with pytest.raises(SourceError, match="the domain must be robot"):
        list(read(tmp_path))

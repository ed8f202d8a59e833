import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nobody import as_nobody

from upsolve.archive.store import open_archive
from upsolve.errors import SourceError
from upsolve.types import Attempt, Status, TestCase, TestKind
from upsolve.verify.judge.domains import domain_of
from upsolve.verify.judge.plans import judge
from upsolve.verify.judge.simulations import Step, Trace, all_checks, parse_check, play
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.worlds.contract import broken, replayed
from upsolve.worlds.tasks import BUILT_IN, read

FAST = JudgeSettings(Limits(wall_seconds=1.5, cpu_seconds=0.5))
LIFT = Path(__file__).parents[2] / "examples" / "lift"
ROBOT = {task.task_id: task for task in read(BUILT_IN["robot"])}
CUP = ROBOT["robot/cup_to_kitchen"]
WALK = domain_of('''
ACTIONS = ("go", "say", "ask")
class DoorError(Exception): pass
class World:
    """A walk."""
    def __init__(self, initial): pass
    def state(self): return {}
    def go(self, room: str):
        """Goes."""
    def say(self, text: str):
        """Says."""
    def ask(self, person: str, options: list[str]):
        """Asks."""
''')

# Go to a, say hello there, ask Ann and be told tea, fail to go to b, go to c, say hello again.
TRACE = Trace(
    (
        Step("go", ["a"], None, "", {"at": "a"}),
        Step("say", ["hello there"], None, "", {"at": "a"}),
        Step("ask", ["Ann", ["tea", "rum"]], "tea", "", {"at": "a"}),
        Step("go", ["b"], None, "DoorError", {"at": "a"}),
        Step("go", ["c"], None, "", {"at": "c"}),
        Step("say", ["Hello again"], None, "", {"at": "c"}),
    ),
    {"at": "c", "things": {"cup": "a", "key": 3}},
)


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        ({"exists": {"go": ["a"]}}, True),
        ({"exists": {"go": ["b"]}}, False),  # it was tried only
        ({"exists": {"go": ["b"], "raises": "DoorError"}}, True),
        ({"exists": {"go": ["a"], "raises": "DoorError"}}, False),
        ({"exists": {"ask": ["Ann", None], "gives": "tea"}}, True),
        ({"exists": {"ask": [None, ["tea", "rum"]], "gives": "rum"}}, False),
        ({"exists": {"ask": ["Ann", ["tea"]]}}, False),
        ({"exists": {"say": [{"has": ["again", "hello"]}], "when": {"at": "c"}}}, True),
        ({"exists": {"say": [{"has": "again"}], "when": {"at": "a"}}}, False),
        ({"exists": {"say": [{"one_of": ["x", "hello there"]}]}}, True),
        ({"never": {"go": ["b"]}}, True),
        ({"never": {"say": None}}, False),
        ({"count": [{"say": None}, 2]}, True),
        ({"count": [{"go": None}, 3]}, False),  # a and c
        ({"count": [{"say": None}, [0, 1]]}, False),
        ({"count": [{"ask": None}, [1, 3]]}, True),
        ({"before": [{"go": ["a"]}, {"ask": None}]}, True),
        ({"before": [{"go": ["c"]}, {"say": None}]}, False),  # c comes before the second say, not before the first
        ({"before": [{"go": ["a"]}, {"go": ["x"]}]}, False),  # no x
        ({"before": [{"go": ["a"]}, {"go": ["a"]}]}, False),  # not before itself
        ({"after": [{"ask": None}, {"say": None}]}, True),
        ({"after": [{"say": None}, {"go": ["c"]}]}, False),  # c comes after the first say, not after the last
        ({"after": [{"go": ["x"]}, {"say": None}]}, False),
        ({"terminal": {"at": "c"}}, True),
        ({"terminal": {"things": {"cup": "a"}}}, True),
        ({"terminal": {"things": {"cup": "a", "hat": None}}}, False),  # ~ is any value of a key that is there
        ({"terminal": {"things": {"key": True}}}, False),
        ({"and": [{"terminal": {"at": "c"}}, {"never": {"ask": None}}]}, False),
        ({"or": [{"terminal": {"at": "a"}}, {"exists": {"ask": None}}]}, True),
        ({"not": {"exists": {"go": ["a"]}}}, False),
    ],
)
def test_checks_of_a_trace_worked_by_hand(check, holds):
    assert parse_check(check, WALK)(TRACE) is holds


letters = st.lists(st.sampled_from("abc"), max_size=8)


@given(letters, st.sampled_from("abc"), st.sampled_from("abc"))
def test_laws_of_checks(names, first, second):
    steps = tuple(Step("go", [name], None, "", {}) for name in names)
    forward, backward = Trace(steps, {}), Trace(steps[::-1], {})
    a, b = {"go": [first]}, {"go": [second]}

    def holds(check, trace=forward):
        return parse_check(check, WALK)(trace)

    assert holds({"never": a}) is holds({"not": {"exists": a}}) is holds({"count": [a, 0]})
    assert holds({"before": [a, b]}) is holds({"after": [b, a]}, backward)
    assert holds({"or": [{"exists": a}, {"exists": b}]}) is holds({"not": {"and": [{"never": a}, {"never": b}]}})
    assert holds({"count": [{"go": None}, len(names)]})


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"exist": {"go": ["a"]}}, "unknown check 'exist'"),
        ({"exists": {"go": ["a"]}, "never": {"go": ["a"]}}, "a mapping with one key"),
        ({"not": {"and": [{"exists": {"fly": None}}]}}, "not: and: 1: exists: an event names one action, one of go, say, ask"),
        ({"exists": {"go": ["a", "b"]}}, "go takes 1 arguments"),
        ({"exists": {"go": ["a"], "where": "x"}}, "and may have gives, raises and when"),
        ({"never": {"go": None, "raises": "DorError"}}, "raises must be one of DoorError"),
        ({"count": [{"go": None}, -1]}, "a count must be an integer >= 0"),
        ({"count": [{"go": None}, True]}, "a count must be an integer >= 0"),
        ({"before": [{"go": None}]}, "list of two"),
        ({"terminal": "a"}, "a state must be a mapping"),
        ({"exists": {"say": [{"has": [1]}]}}, "has: needs a word"),
        ({"exists": {"say": [{"has": []}]}}, "has: needs a word"),
        ({"and": []}, "needs a list of at least one check"),
    ],
)
def test_malformed_checks_are_refused_with_the_way_to_them(check, said):
    with pytest.raises(ValueError, match=said):
        parse_check(check, WALK)


def test_no_checks_are_no_checks_passed():
    with pytest.raises(ValueError, match="at least one"):
        all_checks([], WALK)


def test_there_are_tasks_enough_of_every_difficulty():
    assert len(ROBOT) == 30
    assert {task.difficulty for task in ROBOT.values()} == {"easy", "medium", "hard"}
    for task in ROBOT.values():
        assert len(task.tests) >= 3 and all(test.hidden for test in task.tests)
        assert len({test.input for test in task.tests}) == len(task.tests)
        for action in ("get_current_location", "get_all_rooms", "is_in_room", "go_to", "ask", "say", "pick", "place"):
            assert f"`{action}(" in task.prompt


@pytest.mark.parametrize(
    ("folder", "step"),
    [(BUILT_IN["robot"], 4), pytest.param(BUILT_IN["robot"], 1, marks=pytest.mark.slow), (LIFT, 1)],
    ids=["a fourth of robot", "robot", "lift"],
)
def test_every_task_keeps_the_contract(folder, step):
    assert list(broken([*read(folder)][::step], JudgeSettings())) == []


def test_the_contract_finds_what_is_wrong():
    lazy = replace(CUP, reference="def run(robot):\n    robot.say('hello')\n")
    assert ["the reference: failed" in problem for problem in broken([lazy])] == [True]
    easy = [replace(test, expected='[{"never": {"pick": ["moon"]}}]') for test in CUP.tests]
    (nothing, *_) = broken([replace(CUP, tests=tuple(easy))])
    assert "passes in a world" in nothing
    (weak,) = broken([with_domain("if not thing or self.hand", "if len(thing) > 99:\n            1 / 0\n        if self.hand")])
    assert "unusual arguments break its world" in weak and "ZeroDivisionError" in weak
    same = replace(CUP, tests=(CUP.tests[1],) * 3)
    assert [problem.rpartition(": ")[2] for problem in broken([same])] == [
        f"the reference's actions in world {number} pass in every world" for number in (1, 2, 3)
    ]


def test_what_was_done_can_be_done_again():
    (first, *_) = play(CUP, CUP.reference, FAST)
    # The cup is in the office, the last room.
    assert [(step.action, step.args) for step in first.steps if step.action != "is_in_room"] == [
        ("get_all_rooms", []),
        ("go_to", ["hall"]),
        ("go_to", ["kitchen"]),
        ("go_to", ["office"]),
        ("pick", ["cup"]),
        ("go_to", ["kitchen"]),
        ("place", ["cup"]),
    ]
    assert first.final == {"location": "kitchen", "holding": "", "at": {"cup": "kitchen", "jug": "hall"}, "closed": []}
    assert judged(replayed(first)).outcomes == (Status.PASSED, Status.RUNTIME_ERROR, Status.RUNTIME_ERROR, Status.RUNTIME_ERROR)


def judged(code, task=CUP, settings=FAST):
    return judge(task, Attempt(task.task_id, code), settings)


def test_not_ending_and_not_reaching_the_goal_differ_in_outcome():
    away = judged("def run(robot):\n    robot.go_to('kitchen')\n")
    assert away.outcomes == (Status.FAILED,) * 4 and away.isolation.endswith(",simulation")
    assert away.error_message == "hidden test 1: did not reach the goal"
    # In the first world the cup is not in the hall; in the third it is in the study, where the robot is; in the second in the porch.
    code = "def run(robot):\n    robot.pick('cup')\n    robot.go_to('kitchen')\n    robot.place('cup')\n"
    some = judged(code)
    assert some.outcomes == (Status.RUNTIME_ERROR, Status.RUNTIME_ERROR, Status.PASSED, Status.RUNTIME_ERROR)
    assert (some.passed, some.status, some.error_type, some.error_line) == (1, Status.RUNTIME_ERROR, "AbsentError", 2)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("def run(robot)\n    pass", Status.COMPILE_ERROR, "SyntaxError"),
        ("", Status.RUNTIME_ERROR, "NameError"),
        ("1 / 0", Status.RUNTIME_ERROR, "ZeroDivisionError"),
        ("def run(robot):\n    robot.fly()", Status.RUNTIME_ERROR, "AttributeError"),
        ("def run(robot):\n    robot.go_to()", Status.RUNTIME_ERROR, "TypeError"),
        ("def run(robot):\n    robot.go_to(3)", Status.RUNTIME_ERROR, "TypeError"),
        ("def run(robot):\n    robot.go_to(robot)", Status.RUNTIME_ERROR, "TypeError"),
        ("def run(robot):\n    robot.go_to(room='kitchen')", Status.FAILED, ""),
        ("def run(robot):\n    robot.go_to('moon')", Status.RUNTIME_ERROR, "RoomError"),
        ("def run(robot):\n    try:\n        robot.go_to('moon')\n    except RoomError:\n        pass", Status.FAILED, ""),
        ("def run(robot):\n    raise MemoryError", Status.MEMORY_LIMIT, "MemoryError"),
    ],
)
def test_what_becomes_of_programs(code, status, error):
    verdict = judged(code)
    assert (verdict.status, verdict.error_type) == (status, error)


def test_every_world_finds_a_new_namespace():
    count = "seen = []\ndef run(robot):\n    seen.append(1)\n    assert len(seen) == 1\n"
    assert judged(count + CUP.reference.replace("def run", "def go") + "    return go(robot)\n").status is Status.FAILED
    before = "seen = []\n" + CUP.reference.replace("run(robot):", "run(robot):\n    seen.append(1)\n    assert len(seen) == 1")
    assert judged(before).status is Status.PASSED


def test_executed_lines_are_known():
    code = "def run(robot):\n    if robot.get_current_location() == 'moon':\n        robot.say('x')\n    robot.say('y')\n"
    assert judged(code, settings=replace(FAST, lines=True)).executed_lines == (1, 2, 4)


def test_the_time_of_one_world_is_limited():
    code = "import time\ndef run(robot):\n    if robot.get_current_location() == 'kitchen':\n        time.sleep(99)\n"
    verdict = judged(code, settings=JudgeSettings(Limits(wall_seconds=30, test_seconds=0.3)))
    assert verdict.outcomes == (Status.FAILED, Status.TIMEOUT, Status.UNSCORED, Status.UNSCORED)


SECRET = replace(
    CUP,
    tests=tuple(
        replace(test, input=test.input.replace("office", "vault17").replace("porch", "vault17")) for test in CUP.tests[:2]
    ),
)
"""The cup is in a room with a name that can be looked for."""
ATTACKS = {
    "read memory": """
import gc, sys
def run(robot):
    frame, found = sys._getframe(), []
    while frame:
        found.append(repr(frame.f_locals) + repr(list(frame.f_globals)))
        frame = frame.f_back
    found += [repr(o)[:2000] for o in gc.get_objects() if type(o) in (list, dict, tuple)]
    room = "".join(["va", "ult", "17"])
    if any(room in text for text in found):
        robot.go_to(room); robot.pick("cup"); robot.go_to("kitchen"); robot.place("cup")
""",
    "forge an end": "import os\ndef run(robot):\n    os.write(3, b'{\"ended\":true}\\n')",
    "forge a result": """
import os
line = b'{"test":0,"steps":[],"final":{"at":{"cup":"kitchen"},"holding":""},"reached":true,"ended":true}\\n'
def run(robot):
    for handle in range(1, 100):
        try:
            os.write(handle, line * 3)
        except OSError:
            pass
""",
    "claim that the world fails": 'import os\nos.write(3, b\'{"world":["X","",1],"setup":["X","",1],"broken":"x"}\\n\' * 9)',
    "claim that the setup fails": 'import os\ndef run(robot):\n    os.write(3, b\'{"setup":["X","",1]}\\n\')',
    "write garbage": "import os\ndef run(robot):\n    os.write(3, b'[[[[\\xff\\n' * 99)",
    "act in the pipe": """
import os
def run(robot):
    for action in ('"__init__","args":[{}]', '"state","args":[]', '["go_to"],"args":{}', '"pick","args":[["cup"]]'):
        os.write(3, b'{"action":' + action.encode() + b'}\\n')
""",
    "never return": "def run(robot):\n    while True: pass",
    "sleep": "import time\ndef run(robot):\n    time.sleep(99)",
    "act a million times": "def run(robot):\n    for _ in range(10**6): robot.get_current_location()",
    "fill the results": "def run(robot):\n    for _ in range(900): robot.say('\u00e9' * 2000)",
    "one huge message": "def run(robot):\n    robot.say('x' * 10**7)",
    "deep arguments": "def run(robot):\n    x = []\n    for _ in range(500): x = [x]\n    robot.say(x)",
    "fork": "import os\ndef run(robot):\n    while os.fork() == 0: robot.say('x')",
    "close the pipes": "import os\ndef run(robot):\n    os.closerange(3, 99)",
    "leave": "import os\ndef run(robot):\n    os._exit(0)",
    "import the domain": "import world",
    "import the tester": "import tester",
    "import upsolve": "import upsolve.worlds.robot.world",
    "kill the tester": "import os, signal\ndef run(robot):\n    os.kill(-1, signal.SIGKILL)",
    "reach into the world": "def run(robot):\n    robot.world.things['cup'] = 'kitchen'",
}
EXPECTED = {
    "read memory": {"failed"},
    "forge an end": {"failed"},
    "forge a result": {"failed"},
    "never return": {"timeout"},
    "sleep": {"timeout"},
    "act a million times": {"timeout"},
    "fill the results": {"timeout"},
    "fork": {"failed", "runtime_error", "timeout"},
    "act in the pipe": {"failed", "runtime_error"},
    "kill the tester": {"failed", "runtime_error"},
}
"""Statuses; of the others: runtime_error."""


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_pass_nowhere_and_cannot_stay_unscored(name):
    verdict = judged(ATTACKS[name], SECRET)
    assert verdict.status.value in EXPECTED.get(name, {"runtime_error"}), verdict
    assert verdict.passed == 0
    assert judged(CUP.reference, SECRET).status is Status.PASSED


def test_attacks_pass_nowhere_for_a_plain_user():
    """Then both processes have the same user id."""
    if os.getuid() != 0:
        pytest.skip("only root can become nobody")
    tried = {name: code for name, code in ATTACKS.items() if name not in ("sleep", "never return")}
    tests = [(test.input, test.expected) for test in SECRET.tests]
    said = as_nobody(
        "import json\nfrom upsolve.types import Attempt, Task, TestCase, TestKind\n"
        "from upsolve.verify.judge.plans import judge\nfrom upsolve.verify.limits import JudgeSettings, Limits\n"
        f"tests = tuple(TestCase(TestKind.SIMULATION, *test) for test in {tests!r})\n"
        f"task, settings = Task('t', '', tests, 'run', setup={SECRET.setup!r}), JudgeSettings(Limits(wall_seconds=3, cpu_seconds=1))\n"
        f"tried = { ({**tried, 'honest': CUP.reference})!r}\n"
        "verdicts = {name: judge(task, Attempt('t', code), settings) for name, code in tried.items()}\n"
        "print(json.dumps({name: [v.status, v.passed] for name, v in verdicts.items()}))"
    )
    assert said.pop("honest") == ["passed", 2]
    for name, (status, passed) in said.items():
        assert status in EXPECTED.get(name, {"runtime_error"}) and passed == 0, name


def test_too_many_actions_are_a_timeout_that_says_so():
    assert "more than 1000 actions" in judged(ATTACKS["act a million times"]).error_message
    loop = "def run(robot):\n    for _ in range({}): robot.get_current_location()\n"
    assert judged(loop.format(1000)).status is Status.FAILED
    assert judged(loop.format(1001)).outcomes == (Status.TIMEOUT, *[Status.UNSCORED] * 3)


def with_domain(old, new):
    assert old in CUP.setup
    return replace(CUP, setup=CUP.setup.replace(old, new))


@pytest.mark.parametrize(
    "task",
    [
        with_domain("class RoomError", "1 / 0\nclass RoomError"),
        with_domain("return list(self.rooms)", "return 1 / 0"),
        with_domain('"holding": self.hand', '"holding": self'),
        with_domain("class World:", "class Word:"),
        replace(CUP, tests=(replace(CUP.tests[0], input='{"robot": "moon", "rooms": []}'),)),
        replace(CUP, tests=(replace(CUP.tests[0], expected="[]"),)),
        replace(CUP, tests=(CUP.tests[0], TestCase(TestKind.CALL, "f(1)", "1"))),
    ],
)
def test_a_broken_world_leaves_attempts_unscored(task):
    verdict = judged(CUP.reference, task)
    assert verdict.status is Status.UNSCORED and verdict.error_message


def test_a_domain_may_have_annotations_as_text():
    spot = "from dataclasses import dataclass\n@dataclass\nclass Spot:\n    x: 'int' = 0\nclass RoomError"
    assert judged(CUP.reference, with_domain("class RoomError", spot)).status is Status.PASSED


def test_other_languages_act_in_no_world():
    verdict = judge(CUP, Attempt(CUP.task_id, "echo", "bash"), FAST)
    assert verdict.status is Status.UNSCORED and "worlds are for Python" in verdict.error_message


WORLD = '''
ACTIONS = ("add",)
class TooBig(Exception): pass
class World:
    """A counter."""
    def __init__(self, initial): self.n = initial["n"]
    def state(self): return {"n": self.n}
    def add(self, by: int) -> int:
        """Adds."""
        self.n += by
        return self.n
'''
TASK = {
    "name": "ten",
    "difficulty": "easy",
    "prompt": "Make it ten.",
    "checks": [{"terminal": {"n": 10}}],
    "worlds": [{"start": {"n": n}} for n in (1, 2, 3)],
    "reference": "def run(counter):\n    counter.add(10 - counter.add(0))\n",
}


def folder_of(tmp_path, tasks, world=WORLD):
    (tmp_path / "counter").mkdir()
    (tmp_path / "counter" / "world.py").write_text(world)
    (tmp_path / "counter" / "tasks.yaml").write_text(json.dumps(tasks))  # JSON is YAML
    return tmp_path / "counter"


def test_a_domain_is_a_python_file_and_a_yaml_file(tmp_path):
    (task,) = read(folder_of(tmp_path, [TASK]))
    assert task.task_id == "counter/ten" and "`counter`:\n- `add(by: int) -> int`: Adds." in task.prompt
    assert list(broken([task])) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "task ten: extra: Extra"),
        ({"worlds": TASK["worlds"][:2]}, "task ten: worlds: List should have at least 3"),
        ({"worlds": [{"begin": {}}, *TASK["worlds"]]}, "task ten: worlds.0.start: Field required"),
        ({"checks": [{"exists": {"fly": None}}]}, "task ten: world 1: 1: exists: an event names one action, one of add"),
        ({"checks": []}, "task ten: world 1: checks must be a list of at least one"),
        ({"prompt": 3}, "task ten: prompt: Input should be a valid string"),
    ],
)
def test_a_wrong_task_is_refused_with_file_task_and_key(tmp_path, change, said):
    with pytest.raises(SourceError, match=f"tasks.yaml: {said}"):
        list(read(folder_of(tmp_path, [TASK | change])))


def test_tasks_that_are_there_twice_or_not_at_all(tmp_path):
    with pytest.raises(SourceError, match="counter/ten is defined twice"):
        list(read(folder_of(tmp_path, [TASK, TASK])))
    (tmp_path / "counter" / "tasks.yaml").write_text("[]")
    with pytest.raises(SourceError, match="no tasks"):
        list(read(tmp_path / "counter"))
    for text, said in (("{", "cannot be read as YAML"), ("- task_id: a\n  task_id: b", "line 2: task_id is in line 1, too")):
        (tmp_path / "counter" / "tasks.yaml").write_text(text)
        with pytest.raises(SourceError, match=said):
            list(read(tmp_path / "counter"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class World", "class Word", "class World is missing"),
        ('("add",)', '("add", "sub")', "no public method 'sub', which ACTIONS lists"),
        ('("add",)', '"add"', "ACTIONS is 'add'; it must be a tuple of method names"),
        ('("add",)', "(add,)", "tuple of method names"),
        ("ACTIONS =", "ACTS =", "set it once"),
        ("by: int", "by", "the type of by must be one of str, int"),
        ("by: int", "by: int = 1", "without defaults"),
        ('"""Adds."""', "", "add has no docstring"),
        ('"""A counter."""', "", "World has no docstring"),
        ("def state", "def stat", "no method state"),
        ("class World:", "class World", "not valid Python"),
    ],
)
def test_a_wrong_domain_is_refused(old, new, said):
    with pytest.raises(ValueError, match=said):
        domain_of(WORLD.replace(old, new))


@pytest.mark.slow
def test_tasks_travel_through_an_archive(tmp_path):
    for path, said in (("robot", "30 tasks"), (LIFT, "2 tasks"), ("robot", "nothing was added")):
        command = [sys.executable, "-m", "upsolve", "ingest", "simulator", path, tmp_path / "archive"]
        assert said in subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    stored = {task.task_id: task for task in open_archive(tmp_path / "archive").tasks()}
    assert stored == ROBOT | {task.task_id: task for task in read(LIFT)}


def test_a_world_gives_points_to_a_program_that_misses_its_goal(tmp_path):
    (task,) = read(folder_of(tmp_path, [TASK], f"{WORLD}    def points(self): return 1 - abs(self.n - 10) / 4\n"))
    five = judge(task, Attempt(task.task_id, "def run(counter):\n    counter.add(8)\n"), FAST)
    assert (five.status, five.passed, five.points) == (Status.FAILED, 1, (0.75, 1.0, 0.75)), five
    unfinished = Attempt(task.task_id, "def run(counter):\n    counter.add(8)\n    1 / 0\n")
    assert judge(task, unfinished, FAST).points == (0.0, 0.0, 0.0)
    (broken_task,) = [replace(task, setup=task.setup.replace("/ 4", "* 2"))]
    found = judge(broken_task, Attempt(task.task_id, "def run(counter):\n    counter.add(8)\n"), FAST)
    assert found.status is Status.UNSCORED and "points() must return a number from 0 to 1; it gave -1" in found.error_message

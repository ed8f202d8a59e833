"""Inputs for the embedded tasks, by kind of argument, and the decorators that turn a function into a task.

The function is the reference, its docstring the statement, the inputs the tests: the first five of them visible.
"""

TASKS = []

INT = [3, 0, -4, 12, 7, 1, 25, -13, 100, 48, 2, 999]
POS = [4, 1, 10, 7, 36, 2, 13, 100, 64, 45, 3, 1024]
NAT = [3, 0, 10, 1, 7, 12, 255, 100, 2, 81, 6, 1000]
WORD = ["apple", "sky", "Banana", "level", "Zebra", "a", "Mississippi", "python", "noon", "Queue", "rhythm", "otto"]
TEXT = ["hello world", "", "The quick brown fox", "a", "One two  three", "level", "Hello, World!", "abc123",
        "  padded  ", "UPPER lower", "x y z x", "Madam I am Adam"]
SENTENCE = ["the cat sat", "hello", "a bb ccc dddd", "one two one", "I like green apples", "to be or not to be",
            "red blue red", "go", "big small big tall", "zoo ant bee", "we we we", "yes no maybe so"]
INTS = [[1, 2, 3], [], [5, -1, 4], [10], [-3, -7, -2], [2, 2, 5, 5, 5], [0, 0, 1], [9, 8, 7, 6], [100, -100, 50],
        [4, 6, 8, 10], [1, 3, 5, 7, 9, 11], [7, 1, 7, 3, 1]]
SOME = [[1, 2, 3], [8], [5, -1, 4], [-3, -7, -2], [2, 2, 5, 5, 5], [0, 0, 1], [9, 8, 7, 6], [100, -100, 50],
        [4, 6, 8, 10], [1, 3, 5, 7, 9, 11], [7, 1, 7, 3, 1], [-5, 5]]
STRS = [["red", "green", "blue"], [], ["a"], ["kiwi", "fig", "banana", "fig"], ["Hi", "hi", "HI"], ["x", "yy", "zzz"],
        ["", "b", ""], ["dog", "cat", "bird", "ant"], ["moon", "sun"], ["abc", "Abc", "xyz"], ["one", "two", "three", "two"],
        ["tea", "eat", "ate"]]
COUNTS = [{"a": 1, "b": 2}, {}, {"x": 10}, {"pear": 3, "fig": 3, "kiwi": 1}, {"r": -1, "s": 5}, {"m": 0, "n": 0},
          {"one": 1, "two": 2, "three": 3}, {"q": 100, "p": 50}, {"k": 7, "l": 7, "j": 8}, {"z": -5, "y": -6},
          {"up": 4, "down": 4}, {"c": 9, "d": 8, "e": 7}]
GRID = [[[1, 2], [3, 4]], [[5]], [[1, 2, 3], [4, 5, 6]], [[0, 0], [0, 1], [1, 0]], [[7, 8, 9]], [[1], [2], [3]],
        [[2, 0, 2], [0, 2, 0], [2, 0, 2]], [[-1, -2], [-3, 4]], [[9, 1, 1], [1, 9, 1], [1, 1, 9]], [[3, 3], [3, 3]],
        [[10, 20, 30], [40, 50, 60], [70, 80, 90]], [[6, 5], [4, 3], [2, 1], [0, 7]]]
PAIR = [(1, 2), (5, 5), (0, -3), (10, 4), (-2, -8), (7, 0), (3, 9), (100, 1), (6, 6), (-1, 1), (12, 8), (2, 15)]


def each(*pools):
    """Zip pools into argument tuples; each pool is rotated, so that equal pools do not give equal arguments."""
    size = max(len(pool) for pool in pools)
    return [tuple(pool[(i * (1 + 2 * (k % 2)) + 5 * k) % len(pool)] for k, pool in enumerate(pools)) for i in range(size)]


def unique(calls):
    """Remove repeated argument tuples; keep the order."""
    seen, result = set(), []
    for call in calls:
        if repr(call) not in seen:
            seen.add(repr(call))
            result.append(call)
    return result


def task(difficulty, *pools, calls=()):
    """Register the decorated function as a task; ``calls`` come first, then the pools' combinations, twelve in all."""

    def register(function):
        inputs = unique([*calls, *(each(*pools) if pools else ())])[: max(12, len(calls))]
        TASKS.append((difficulty, function, inputs))
        return function

    return register

"""Tasks about dictionaries, sets, tuples, grids and small simulations."""

from pools import COUNTS, GRID, INT, INTS, PAIR, POS, STRS, WORD, task

KEY = ["a", "x", "fig", "zz", "b", "one", "q", "r", "m", "k", "up", "c"]


@task("easy", COUNTS)
def number_of_keys(data):
    """returns how many keys the dictionary `data` has."""
    return len(data)


@task("easy", COUNTS)
def sum_of_values(data):
    """returns the sum of all values of the dictionary `data`, whose values are numbers; 0 for an empty dictionary."""
    return sum(data.values())


@task("easy", COUNTS)
def sorted_keys(data):
    """returns the list of the keys of the dictionary `data` in increasing order."""
    return sorted(data)


@task("easy", COUNTS, KEY, calls=[({"a": 1}, "a")])
def has_key(data, key):
    """returns True if the dictionary `data` has the key `key`, and False otherwise."""
    return key in data


@task("easy", COUNTS, KEY, calls=[({"tea": 3, "cake": 5}, "tea"), ({"tea": 3}, "cake")])
def price_or_zero(menu, item):
    """returns the price of `item` in the dictionary `menu`, or 0 if it is not on the menu."""
    return menu.get(item, 0)


@task("easy", PAIR)
def swap_pair(pair):
    """returns a tuple with the two items of the tuple `pair` in the opposite order."""
    return (pair[1], pair[0])


@task("easy", PAIR)
def sum_of_pair(pair):
    """returns the sum of the two numbers in the tuple `pair`."""
    return pair[0] + pair[1]


@task("easy", PAIR)
def pair_is_equal(pair):
    """returns True if the two items of the tuple `pair` are equal, and False otherwise."""
    return pair[0] == pair[1]


@task("easy", GRID)
def number_of_rows(grid):
    """returns the number of rows of `grid`, a list of rows."""
    return len(grid)


@task("easy", GRID)
def number_of_columns(grid):
    """returns the number of columns of `grid`, a non-empty list of rows of equal length."""
    return len(grid[0])


@task("easy", GRID)
def first_row(grid):
    """returns the first row of `grid`, a non-empty list of rows."""
    return grid[0]


@task("easy", GRID)
def top_left_value(grid):
    """returns the value in the first column of the first row of `grid`, a non-empty list of rows."""
    return grid[0][0]


@task("easy", GRID)
def grid_total(grid):
    """returns the sum of all the numbers in `grid`, a list of rows of numbers."""
    return sum(sum(row) for row in grid)


@task("easy", GRID)
def row_sums(grid):
    """returns the list of the sums of the rows of `grid`, a list of rows of numbers."""
    return [sum(row) for row in grid]


@task("easy", INTS, INTS)
def union_size(left, right):
    """returns how many distinct items the lists `left` and `right` have together."""
    return len(set(left) | set(right))


@task("easy", INTS)
def as_set(items):
    """returns the set of the items in the list `items`."""
    return set(items)


@task("easy", INTS, INTS, calls=[([1, 2], [2, 3])])
def items_in_both(left, right):
    """returns the set of items that are in both of the lists `left` and `right`."""
    return set(left) & set(right)


@task("easy", calls=[([True, True],), ([],), ([True, False],), ([False],), ([False, True, True],), ([True],), ([True, True, True],), ([False, False],), ([True, False, True, False],), ([False, True],)])
def count_true(flags):
    """returns how many of the booleans in the list `flags` are True."""
    return sum(flags)


@task("easy", INT, INT, INT)
def make_triple(a, b, c):
    """returns the tuple made of `a`, `b` and `c`, in that order."""
    return (a, b, c)


@task("easy", COUNTS)
def keys_as_set(data):
    """returns the set of the keys of the dictionary `data`."""
    return set(data)


@task("easy", COUNTS)
def values_as_list(data):
    """returns the list of the values of the dictionary `data`, in the dictionary's order."""
    return list(data.values())


@task("easy", POS, POS, calls=[(10, 3), (3, 10)])
def account_after_withdrawal(balance, amount):
    """returns the new balance after taking `amount` from `balance`; if there is not enough money the balance stays as it is."""
    return balance - amount if amount <= balance else balance


@task("easy", calls=[("red",), ("green",), ("yellow",), ("blue",), ("",), ("RED",), ("Green",), ("stop",), ("go",), ("yellow ",)])
def traffic_light_action(colour):
    """returns "stop" for the string "red", "wait" for "yellow", "go" for "green", and "unknown" for anything else."""
    return {"red": "stop", "yellow": "wait", "green": "go"}.get(colour, "unknown")


@task("easy", WORD, INT)
def single_entry(key, value):
    """returns a dictionary with one entry that maps `key` to `value`."""
    return {key: value}


@task("easy", calls=[(6, False), (7, False), (8, True), (9, True), (12, False), (0, True), (0, False), (23, True), (10, True), (10, False)])
def alarm_needed(hour, weekend):
    """returns True if an alarm rings at `hour`: at hour 7 on working days, and at hour 9 when `weekend` is True. At any other hour it returns False."""
    return hour == (9 if weekend else 7)


@task("easy", INT, INT)
def point_distance_on_line(a, b):
    """returns the distance between the points `a` and `b` on a number line."""
    return abs(a - b)


@task("easy", STRS, INTS, calls=[(["a", "b"], [1, 2])])
def dictionary_from_lists(keys, values):
    """returns a dictionary that maps the items of the list `keys` to the items at the same position of the list `values`, as far as the shorter list goes."""
    return dict(zip(keys, values))


@task("easy", INTS)
def has_duplicates(items):
    """returns True if any item occurs more than once in the list `items`, and False otherwise."""
    return len(set(items)) < len(items)


@task("easy", COUNTS)
def largest_value_or_zero(data):
    """returns the largest value of the dictionary `data`, or 0 if the dictionary is empty."""
    return max(data.values(), default=0)


@task("easy", PAIR)
def larger_of_pair(pair):
    """returns the larger of the two numbers in the tuple `pair`."""
    return max(pair)


@task("easy", POS, calls=[(4,), (5,), (12,), (17,), (18,), (64,), (65,), (0,)])
def ticket_price(age):
    """returns the price of a ticket: 0 for an `age` below 5, 6 for ages 5 to 17, 10 for ages 18 to 64, and 7 from 65 on."""
    return 0 if age < 5 else 6 if age < 18 else 10 if age < 65 else 7


@task("easy", COUNTS)
def is_dictionary_empty(data):
    """returns True if the dictionary `data` has no entries, and False otherwise."""
    return not data


@task("easy", calls=[({1, 2}, 3), (set(), 1), ({5}, 5), ({7, 8}, 9), ({-1}, 0), ({"a"}, "b"), ({2, 4}, 4), ({0}, 1), ({"x", "y"}, "z"), ({10, 20}, 30)])
def set_with_item(items, item):
    """returns a set with all the members of the set `items` and also `item`."""
    return items | {item}


@task("medium", COUNTS)
def swap_keys_and_values(data):
    """returns a dictionary that maps the values of the dictionary `data` to its keys; where several keys share a value, the last one wins."""
    return {v: k for k, v in data.items()}


@task("medium", STRS)
def count_occurrences(words):
    """returns a dictionary that maps every string in the list `words` to how often it occurs there."""
    return {w: words.count(w) for w in words}


@task("medium", COUNTS, INT, calls=[({"a": 1, "b": 5}, 3)])
def entries_above(data, limit):
    """returns a dictionary with only those entries of the dictionary `data` whose value is greater than `limit`."""
    return {k: v for k, v in data.items() if v > limit}


@task("medium", COUNTS, COUNTS)
def add_counts(left, right):
    """returns a dictionary with all the keys of the dictionaries `left` and `right`; a key that is in both has the sum of the two values."""
    return {k: left.get(k, 0) + right.get(k, 0) for k in [*left, *right]}


@task("medium", GRID)
def transpose_grid(grid):
    """returns the transpose of `grid`, a non-empty list of rows of equal length: its columns become the rows."""
    return [list(column) for column in zip(*grid)]


@task("medium", GRID)
def column_sums(grid):
    """returns the list of the sums of the columns of `grid`, a non-empty list of rows of equal length."""
    return [sum(column) for column in zip(*grid)]


@task("medium", GRID)
def largest_in_grid(grid):
    """returns the largest number in `grid`, a non-empty list of non-empty rows."""
    return max(max(row) for row in grid)


@task("medium", GRID)
def flatten_grid(grid):
    """returns the list of all values of `grid`, a list of rows, row after row."""
    return [value for row in grid for value in row]


@task("medium", GRID, INT, calls=[([[1, 2], [2, 2]], 2)])
def count_in_grid(grid, value):
    """returns how many times `value` occurs in `grid`, a list of rows."""
    return sum(row.count(value) for row in grid)


@task("medium", calls=[("LLR",), ("",), ("R",), ("LR",), ("RRRR",), ("LLLL",), ("RLRLR",), ("LLRRR",), ("RRL",), ("LRLRLRLL",)])
def robot_position(moves):
    """follows the string `moves` on a number line from position 0, where "R" adds one and "L" takes one away, and returns the final position."""
    return moves.count("R") - moves.count("L")


@task("medium", calls=[([10, -5, -20],), ([],), ([5],), ([-1],), ([100, -50, -50],), ([3, -4, 2],), ([0],), ([20, -30, 15],), ([7, 7, -15],), ([-5, 5, -5],)])
def final_balance(transactions):
    """starts with a balance of 0, applies the numbers of the list `transactions` in order but skips any that would make the balance negative, and returns the final balance."""
    balance = 0
    for amount in transactions:
        if balance + amount >= 0:
            balance += amount
    return balance


@task("medium", COUNTS)
def key_of_largest(data):
    """returns the key with the largest value in the dictionary `data`; if several have it the first of them, and None for an empty dictionary."""
    return max(data, key=data.get, default=None)


@task("medium", STRS)
def group_by_length(words):
    """returns a dictionary that maps each length to the list of the strings of that length in the list `words`, in their order."""
    groups = {}
    for w in words:
        groups.setdefault(len(w), []).append(w)
    return groups


@task("medium", calls=[([("a", 1), ("b", 2)],), ([],), ([("x", 5)],), ([("a", 1), ("a", 3)],), ([("k", 0)],), ([("p", 2), ("q", 2)],), ([("z", -1), ("y", 1)],), ([("one", 1), ("two", 2), ("one", 3)],), ([("m", 9)],), ([("c", 4), ("d", 4), ("c", 1)],)])
def total_per_name(sales):
    """takes a list `sales` of tuples (name, amount) and returns a dictionary that maps each name to the sum of its amounts."""
    totals = {}
    for name, amount in sales:
        totals[name] = totals.get(name, 0) + amount
    return totals


@task("medium", calls=[([(1, 2), (0, 5)],), ([],), ([(3, 1)],), ([(2, 2), (2, 1)],), ([(5, 0), (4, 9)],), ([(1, 1), (1, 1)],), ([(7, 3), (8, 2), (9, 1)],), ([(0, 0), (-1, 4)],), ([(6, 7), (5, 6), (4, 8)],), ([(2, 9), (1, 9)],)])
def sort_by_second(pairs):
    """returns the tuples of the list `pairs` ordered by their second item, the smallest first; equal ones keep their order."""
    return sorted(pairs, key=lambda p: p[1])


@task("medium", calls=[(3,), (1,), (0,), (2,), (4,), (5,), (6,), (7,), (8,), (10,)])
def identity_grid(n):
    """returns a list of `n` rows of `n` numbers with 1 on the main diagonal and 0 everywhere else."""
    return [[int(i == j) for j in range(n)] for i in range(n)]


@task("medium", INTS, INTS)
def only_in_first(left, right):
    """returns the sorted list of the distinct items of the list `left` that are not in the list `right`."""
    return sorted(set(left) - set(right))


@task("medium", calls=[((0, 0), (3, 4)), ((1, 1), (1, 1)), ((2, 5), (0, 0)), ((-1, -1), (1, 1)), ((10, 0), (0, 10)), ((5, 5), (5, 9)), ((7, 2), (3, 2)), ((0, -3), (0, 3)), ((1, 2), (3, 4)), ((100, 1), (1, 100))])
def manhattan_distance(a, b):
    """returns the Manhattan distance between the points `a` and `b`, two tuples (x, y): the sum of the distances in x and in y."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


@task("medium", calls=[("rock", "paper"), ("paper", "rock"), ("rock", "rock"), ("scissors", "rock"), ("rock", "scissors"), ("paper", "scissors"), ("scissors", "paper"), ("paper", "paper"), ("scissors", "scissors"), ("rock", "well"), ("well", "well")])
def rock_paper_scissors(first, second):
    """returns 1 if the hand `first` wins, 2 if the hand `second` wins and 0 for a draw; hands are "rock", "paper" or "scissors", with the usual rules. Any other hand gives 0."""
    order = ["rock", "paper", "scissors"]
    if first not in order or second not in order:
        return 0
    return (0, 1, 2)[(order.index(first) - order.index(second)) % 3]


@task("medium", GRID)
def main_diagonal(grid):
    """returns the list of the values on the main diagonal of `grid` (row 0 column 0, row 1 column 1, and so on), as far as both rows and columns go."""
    return [grid[i][i] for i in range(min(len(grid), len(grid[0])))]


@task("hard", GRID)
def rotate_grid_clockwise(grid):
    """returns `grid`, a non-empty list of rows of equal length, turned by 90 degrees clockwise: the first column, read upwards, becomes the first row."""
    return [list(column) for column in zip(*grid[::-1])]


@task("hard", calls=[([1, [2, [3]]],), ([],), ([[]],), ([1, 2],), ([[1], [2, 3]],), ([[[4]]],), ([5, [6, [7, [8]]]],), ([[1, [2]], 3],), ([[[], 9]],), ([0, [0, [0]]],)])
def flatten_deeply(nested):
    """returns the list of all the numbers in `nested`, a list that may contain numbers and further such lists to any depth, in order."""
    out = []
    for item in nested:
        out.extend(flatten_deeply(item) if isinstance(item, list) else [item])
    return out


@task("hard", COUNTS)
def invert_to_lists(data):
    """returns a dictionary that maps each value of the dictionary `data` to the sorted list of the keys that have it."""
    out = {}
    for key in sorted(data):
        out.setdefault(data[key], []).append(key)
    return out


@task("hard", calls=[([[1, 2], [3, 4]],), ([[5]],), ([[1, 3, 1], [1, 5, 1], [4, 2, 1]],), ([[1, 2, 3]],), ([[1], [2], [3]],), ([[0, 0], [0, 0]],), ([[9, 1], [1, 1]],), ([[1, 9], [9, 1]],), ([[2, 1, 1], [9, 9, 1]],), ([[1, 1, 1], [9, 9, 1], [1, 1, 1]],)])
def cheapest_path(grid):
    """returns the smallest sum of numbers on a path from the top left to the bottom right of `grid`, a list of rows of non-negative numbers, moving only right or down; both ends count."""
    costs = {}
    for i, row in enumerate(grid):
        for j, value in enumerate(row):
            before = [costs[p] for p in ((i - 1, j), (i, j - 1)) if p in costs]
            costs[i, j] = value + (min(before) if before else 0)
    return costs[len(grid) - 1, len(grid[0]) - 1]


@task("hard", calls=[(1,), (2,), (3,), (4,), (5,), (6,), (0,), (10,), (15,), (20,)])
def ways_to_climb(steps):
    """returns in how many different ways a staircase of `steps` steps can be climbed when each move takes one or two steps. There is one way to climb 0 steps."""
    a, b = 1, 1
    for _ in range(steps):
        a, b = b, a + b
    return a


@task("hard", calls=[(["push 1", "push 2", "pop"],), ([],), (["pop"],), (["push 5"],), (["push 1", "pop", "pop"],), (["push 3", "push 4"],), (["push 9", "pop"],), (["push 1", "push 2", "push 3", "pop", "pop"],), (["pop", "push 7"],), (["push 0", "push 0"],)])
def run_stack(commands):
    """runs the list `commands` on an empty stack: "push n" puts the integer n on top and "pop" removes the top item if there is one; it returns the final stack as a list, the top last."""
    stack = []
    for command in commands:
        if command == "pop":
            stack = stack[:-1]
        else:
            stack.append(int(command.split()[1]))
    return stack


@task("hard", calls=[({"a": ["b"], "b": []}, "a"), ({"a": []}, "a"), ({"a": ["b"], "b": ["c"], "c": []}, "a"), ({"a": ["b"], "b": ["a"]}, "a"), ({"x": ["y", "z"], "y": [], "z": []}, "x"), ({"p": [], "q": ["p"]}, "p"), ({"p": [], "q": ["p"]}, "q"), ({"m": ["m"]}, "m"), ({"a": ["c"], "b": ["c"], "c": ["d"], "d": []}, "b"), ({"s": ["t"], "t": ["u"], "u": ["s"]}, "t")])
def reachable_from(graph, start):
    """returns the sorted list of all nodes that can be reached from `start` in the dictionary `graph`, which maps each node to the list of nodes it leads to; `start` itself is included."""
    seen, todo = set(), [start]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(graph[node])
    return sorted(seen)


@task("hard", calls=[(["XXX", "O O", "   "],), (["XO ", "XO ", " O "],), (["X  ", " X ", "  X"],), (["   ", "   ", "   "],), (["XOX", "XOO", "OXX"],), (["  O", " O ", "O  "],), (["OOO", "XX ", "X  "],), (["X O", "XO ", "X  "],), (["XX ", "OO ", "   "],), (["XO ", "OX ", "  X"],)])
def tic_tac_toe_winner(rows):
    """takes a list of three strings `rows` of three characters each ("X", "O" or a space), and returns the player who has three in a row, column or diagonal as "X" or "O", or an empty string if nobody has."""
    lines = [*rows, *("".join(c) for c in zip(*rows)), rows[0][0] + rows[1][1] + rows[2][2], rows[0][2] + rows[1][1] + rows[2][0]]
    return "X" if "XXX" in lines else "O" if "OOO" in lines else ""


@task("hard", calls=[(1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,), (9,), (10,)])
def pascal_row(n):
    """returns the `n`-th row of Pascal's triangle as a list, where the first row is [1], the second [1, 1] and the third [1, 2, 1]."""
    row = [1]
    for _ in range(n - 1):
        row = [a + b for a, b in zip([0, *row], [*row, 0])]
    return row


@task("hard", calls=[(["a"],), ([],), (["a", "b"],), (["x", "y", "z"],), ([1, 2],), ([5],), ([1, 2, 3],), (["p", "q", "r"],), ([0],), ([3, 1],)])
def all_subsets(items):
    """returns the list of all subsets of the list `items` as lists: first those without the last item, then the same ones with the last item added at their end. An empty list gives [[]]."""
    subsets = [[]]
    for item in items:
        subsets += [[*s, item] for s in subsets]
    return subsets

"""Tasks about lists."""

from pools import INT, INTS, SOME, STRS, task


@task("easy", INTS)
def total_of_list(numbers):
    """returns the sum of the numbers in the list `numbers`. The sum of an empty list is 0."""
    return sum(numbers)


@task("easy", SOME)
def largest_number(numbers):
    """returns the largest number in the non-empty list `numbers`."""
    return max(numbers)


@task("easy", SOME)
def smallest_number(numbers):
    """returns the smallest number in the non-empty list `numbers`."""
    return min(numbers)


@task("easy", SOME)
def last_item(items):
    """returns the last item of the non-empty list `items`."""
    return items[-1]


@task("easy", SOME)
def first_item(items):
    """returns the first item of the non-empty list `items`."""
    return items[0]


@task("easy", INTS)
def list_length(items):
    """returns the number of items in the list `items`."""
    return len(items)


@task("easy", INTS)
def reversed_list(items):
    """returns a new list with the items of `items` in reverse order."""
    return items[::-1]


@task("easy", INTS)
def sorted_ascending(numbers):
    """returns a new list with the numbers of the list `numbers` in increasing order."""
    return sorted(numbers)


@task("easy", INTS)
def sorted_descending(numbers):
    """returns a new list with the numbers of the list `numbers` in decreasing order."""
    return sorted(numbers, reverse=True)


@task("easy", INTS)
def even_numbers(numbers):
    """returns the list of the even numbers in the list `numbers`, in their order."""
    return [n for n in numbers if n % 2 == 0]


@task("easy", INTS)
def double_all(numbers):
    """returns the list of the numbers in the list `numbers`, each multiplied by 2."""
    return [2 * n for n in numbers]


@task("easy", STRS)
def lengths_of_words(words):
    """returns the list of the lengths of the strings in the list `words`."""
    return [len(w) for w in words]


@task("easy", INTS)
def is_list_empty(items):
    """returns True if the list `items` is empty and False otherwise."""
    return not items


@task("easy", INTS, INT, calls=[([1, 2, 3], 2), ([4], 5)])
def contains_item(items, item):
    """returns True if `item` is in the list `items`, and False otherwise."""
    return item in items


@task("easy", INTS, INT, calls=[([2, 2, 3], 2), ([1, 1, 1], 1)])
def count_item(items, item):
    """returns how many times `item` occurs in the list `items`."""
    return items.count(item)


@task("easy", INTS)
def positive_only(numbers):
    """returns the list of the numbers in the list `numbers` that are greater than zero, in their order."""
    return [n for n in numbers if n > 0]


@task("easy", INTS, INTS)
def join_lists(left, right):
    """returns a new list with the items of the list `left` followed by the items of the list `right`."""
    return left + right


@task("easy", STRS)
def words_to_upper(words):
    """returns the list of the strings in the list `words`, in upper case."""
    return [w.upper() for w in words]


@task("easy", STRS)
def join_with_commas(words):
    """returns the strings in the list `words` joined into one string with a comma between them and no spaces."""
    return ",".join(words)


@task("easy", SOME)
def mean_of_list(numbers):
    """returns the average of the numbers in the non-empty list `numbers` as a float."""
    return sum(numbers) / len(numbers)


@task("easy", INTS, INT)
def append_item(items, item):
    """returns a new list with all the items of the list `items` and then `item` at the end."""
    return [*items, item]


@task("easy", SOME)
def without_first(items):
    """returns a new list with all the items of the non-empty list `items` except the first."""
    return items[1:]


@task("easy", INTS)
def first_three_items(items):
    """returns a list of the first three items of the list `items`, or all of them if there are fewer."""
    return items[:3]


@task("easy", SOME)
def range_of_values(numbers):
    """returns the difference between the largest and the smallest number in the non-empty list `numbers`."""
    return max(numbers) - min(numbers)


@task("easy", INTS)
def squares_of_list(numbers):
    """returns the list of the squares of the numbers in the list `numbers`."""
    return [n * n for n in numbers]


@task("easy", INTS)
def count_negatives(numbers):
    """returns how many numbers in the list `numbers` are less than zero."""
    return sum(n < 0 for n in numbers)


@task("easy", STRS)
def first_letters(words):
    """returns the list of the first characters of the strings in the list `words`. An empty string gives an empty string."""
    return [w[:1] for w in words]


@task("easy", INTS, INTS, calls=[([1, 2], [1, 2]), ([1, 2], [2, 1])])
def same_length(left, right):
    """returns True if the lists `left` and `right` have the same number of items, and False otherwise."""
    return len(left) == len(right)


@task("easy", INTS, INT)
def add_to_each(numbers, amount):
    """returns the list of the numbers in the list `numbers`, each increased by `amount`."""
    return [n + amount for n in numbers]


@task("easy", SOME)
def first_and_last_sum(numbers):
    """returns the sum of the first and the last number of the non-empty list `numbers`. In a list of one number that number counts twice."""
    return numbers[0] + numbers[-1]


@task("easy", INTS)
def strings_of_numbers(numbers):
    """returns the list of the numbers in the list `numbers`, each converted to a string."""
    return [str(n) for n in numbers]


@task("easy", STRS)
def non_empty_strings(words):
    """returns the list of the strings in the list `words` that are not empty, in their order."""
    return [w for w in words if w]


@task("easy", INTS, INT, calls=[([5, 1, 4], 3)])
def numbers_above(numbers, limit):
    """returns the list of the numbers in the list `numbers` that are greater than `limit`, in their order."""
    return [n for n in numbers if n > limit]


@task("medium", INTS)
def remove_duplicates(items):
    """returns a list with the items of the list `items` in their order, keeping only the first occurrence of each."""
    return list(dict.fromkeys(items))


@task("medium", INTS)
def running_totals(numbers):
    """returns the list of running totals of the list `numbers`: each entry is the sum of all numbers up to that position."""
    totals, total = [], 0
    for n in numbers:
        total += n
        totals.append(total)
    return totals


@task("medium", SOME)
def index_of_largest(numbers):
    """returns the position (counted from 0) of the largest number in the non-empty list `numbers`; if it occurs several times, the first position."""
    return numbers.index(max(numbers))


@task("medium", SOME)
def second_smallest_or_none(numbers):
    """returns the second smallest distinct number in the list `numbers`, or None if there are fewer than two distinct numbers."""
    distinct = sorted(set(numbers))
    return distinct[1] if len(distinct) > 1 else None


@task("medium", INTS)
def is_sorted_list(numbers):
    """returns True if every number in the list `numbers` is at least as large as the one before it, and False otherwise."""
    return all(a <= b for a, b in zip(numbers, numbers[1:]))


@task("medium", INTS, INT)
def rotate_left(items, steps):
    """moves the first item of the list `items` to its end, `steps` times (modulo the length, so negative steps move the other way), and returns the resulting list. An empty list stays empty."""
    if not items:
        return []
    k = steps % len(items)
    return items[k:] + items[:k]


@task("medium", INTS, INTS, calls=[([1, 2, 3], [2, 3, 4]), ([1, 1], [1])])
def common_items(left, right):
    """returns the sorted list of the distinct items that occur both in the list `left` and in the list `right`."""
    return sorted(set(left) & set(right))


@task("medium", INTS)
def product_of_list(numbers):
    """returns the product of the numbers in the list `numbers`. The product of an empty list is 1."""
    result = 1
    for n in numbers:
        result *= n
    return result


@task("medium", INTS)
def alternate_items(items):
    """returns the list of the items of the list `items` at the even positions 0, 2, 4 and so on."""
    return items[::2]


@task("medium", INTS)
def sum_of_even_positions(numbers):
    """returns the sum of the numbers at the even positions 0, 2, 4 and so on of the list `numbers`; 0 for an empty list."""
    return sum(numbers[::2])


@task("medium", STRS)
def longest_string(words):
    """returns the longest string in the list `words`; if several are equally long the first of them, and an empty string for an empty list."""
    return max(words, key=len, default="")


@task("medium", STRS)
def sort_by_length(words):
    """returns the strings of the list `words` ordered by length, the shortest first; strings of equal length keep their order."""
    return sorted(words, key=len)


@task("medium", INTS, INTS)
def pairwise_sums(left, right):
    """returns the list of the sums of the items at the same position in the lists `left` and `right`, as long as the shorter list."""
    return [a + b for a, b in zip(left, right)]


@task("medium", INTS)
def split_even_odd(numbers):
    """returns a tuple of two lists: the even numbers of the list `numbers`, and the odd numbers, each in their order."""
    return [n for n in numbers if n % 2 == 0], [n for n in numbers if n % 2]


@task("medium", INTS, calls=[([1, 2, 3, 4, 5], 2)])
def chunk_pairs(items, size=2):
    """cuts the list `items` into lists of `size` items (2 if no size is given) and returns the list of them; the last one may be shorter."""
    return [items[i : i + size] for i in range(0, len(items), size)]


@task("medium", INTS)
def differences(numbers):
    """returns the list of differences between each number of the list `numbers` and the one before it; empty for fewer than two numbers."""
    return [b - a for a, b in zip(numbers, numbers[1:])]


@task("medium", INTS, INT, calls=[([2, 3, 2], 2), ([1, 1], 1)])
def remove_all(items, item):
    """returns a list with the items of the list `items` in their order, without any that equals `item`."""
    return [x for x in items if x != item]


@task("medium", INTS)
def count_distinct(items):
    """returns how many different items the list `items` holds."""
    return len(set(items))


@task("medium", STRS)
def count_long_words(words):
    """returns how many strings in the list `words` have more than three characters."""
    return sum(len(w) > 3 for w in words)


@task("medium", INTS)
def max_or_default(numbers):
    """returns the largest number in the list `numbers`, or 0 if the list is empty."""
    return max(numbers, default=0)


@task("medium", INTS, INT, calls=[([1, 2, 3], 3), ([4, 4], 4)])
def positions_of(items, item):
    """returns the list of all positions (counted from 0) at which `item` occurs in the list `items`."""
    return [i for i, x in enumerate(items) if x == item]


@task("medium", SOME)
def swap_ends(items):
    """returns a new list in which the first and the last item of the non-empty list `items` have changed places."""
    return items if len(items) == 1 else [items[-1], *items[1:-1], items[0]]


@task("hard", calls=[([1, 3, 5], [2, 4]), ([], []), ([1], []), ([1, 1], [1]), ([5, 6], [1, 2]), ([-3, 0], [-2, 9]), ([], [4]), ([1, 2, 3], [1, 2, 3]), ([10], [3, 20]), ([0, 0], [0])])
def merge_sorted(left, right):
    """merges two lists of numbers, each already in increasing order, into one list in increasing order."""
    return sorted(left + right)


@task("hard", calls=[([1, 2, 3, 4], 2), ([5], 1), ([1, -1, 5, 2], 3), ([4, 4, 4], 2), ([-1, -2, -3], 2), ([0, 10, 0, 10], 1), ([9, 1, 1, 9], 2), ([2, 8, 1, 7, 3], 3), ([1, 2], 2), ([3, 0, 3, 0, 3], 3)])
def best_window_sum(numbers, size):
    """returns the largest sum of `size` consecutive numbers in the list `numbers`, which has at least `size` numbers."""
    return max(sum(numbers[i : i + size]) for i in range(len(numbers) - size + 1))


@task("hard", INTS)
def longest_increasing_run(numbers):
    """returns the length of the longest run of consecutive numbers in the list `numbers` in which each is greater than the one before; 0 for an empty list."""
    best = run = 0
    for i, n in enumerate(numbers):
        run = run + 1 if i and n > numbers[i - 1] else 1
        best = max(best, run)
    return best


@task("hard", calls=[([[1, 3], [2, 5]],), ([],), ([[1, 2], [3, 4]],), ([[5, 6], [1, 2]],), ([[1, 10], [2, 3]],), ([[1, 2], [2, 3]],), ([[0, 0]],), ([[4, 8], [1, 5], [9, 9]],), ([[1, 4], [6, 7], [3, 6]],), ([[-3, -1], [-2, 2]],)])
def merge_intervals(intervals):
    """takes a list of intervals [start, end] and returns them in increasing order with all that overlap or touch merged into one."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


@task("hard", SOME)
def max_subarray_sum(numbers):
    """returns the largest sum of any non-empty stretch of consecutive numbers in the non-empty list `numbers`."""
    best = current = numbers[0]
    for n in numbers[1:]:
        current = max(n, current + n)
        best = max(best, current)
    return best


@task("hard", calls=[([2, 7, 11], 9), ([1, 2], 5), ([3, 3], 6), ([], 1), ([5], 5), ([1, 4, 6, 9], 10), ([0, 0, 1], 0), ([-1, 1], 0), ([8, 2, 5], 7), ([4, 4, 4], 9)])
def has_pair_with_sum(numbers, target):
    """returns True if two numbers at different positions of the list `numbers` add up to `target`, and False otherwise."""
    return any(a + b == target for i, a in enumerate(numbers) for b in numbers[i + 1 :])


@task("hard", SOME)
def median_of_list(numbers):
    """returns the median of the non-empty list `numbers` as a float: the middle number in sorted order, or the average of the two middle ones."""
    ordered, half = sorted(numbers), len(numbers) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@task("hard", SOME)
def most_frequent(items):
    """returns the item that occurs most often in the non-empty list `items`; if several do, the one that appears first."""
    return max(items, key=items.count)


@task("hard", INTS)
def move_zeros_to_end(numbers):
    """returns a list with the numbers of the list `numbers` in their order, but with all zeros moved to the end."""
    return [n for n in numbers if n] + [0] * numbers.count(0)


@task("hard", calls=[([1, 2, 3],), ([],), ([7],), ([1, 1],), ([3, 1, 2],), ([0, 5],), ([4, 4, 1],), ([9, 8],), ([2, 2, 2],), ([6, 5, 4, 3],)])
def all_pairs(items):
    """returns the list of all tuples (a, b) where a stands before b in the list `items`, in order of a's position and then of b's."""
    return [(a, b) for i, a in enumerate(items) for b in items[i + 1 :]]


@task("hard", calls=[([3, 1, 2],), ([1, 2],), ([],), ([5, 4, 3, 2, 1],), ([1],), ([2, 2],), ([1, 3, 2, 4],), ([4, 1, 3, 2],), ([2, 1],), ([10, 30, 20, 0],)])
def count_inversions(numbers):
    """returns how many pairs of positions i < j in the list `numbers` hold a greater number at i than at j."""
    return sum(a > b for i, a in enumerate(numbers) for b in numbers[i + 1 :])


@task("hard", calls=[([1, 0, 2],), ([],), ([5],), ([3, 0, 3],), ([4, 2, 0, 3, 2, 5],), ([1, 2, 3],), ([3, 2, 1],), ([2, 0, 0, 2],), ([0, 1, 0, 2, 1, 0, 1, 3],), ([5, 1, 5, 1, 5],)])
def trapped_water(heights):
    """takes a list of wall `heights`, each one unit wide, and returns how many units of rain water stay between the walls."""
    return sum(max(0, min(max(heights[: i + 1]), max(heights[i:])) - h) for i, h in enumerate(heights))

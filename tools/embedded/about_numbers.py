"""Tasks about numbers."""

from pools import INT, INTS, NAT, POS, SOME, task


@task("easy", INT)
def double_plus_one(n):
    """returns twice the number `n`, plus one."""
    return 2 * n + 1


@task("easy", INT)
def square_of(n):
    """returns the square of the number `n`."""
    return n * n


@task("easy", INT)
def is_even_number(n):
    """returns True if the integer `n` is even and False otherwise."""
    return n % 2 == 0


@task("easy", INT, INT)
def larger_of_two(a, b):
    """returns the larger of the two numbers `a` and `b`."""
    return max(a, b)


@task("easy", INT, INT)
def add_numbers(a, b):
    """returns the sum of `a` and `b`."""
    return a + b


@task("easy", POS, POS)
def rectangle_area(width, height):
    """returns the area of a rectangle with the given `width` and `height`."""
    return width * height


@task("easy", POS, POS)
def rectangle_perimeter(width, height):
    """returns the perimeter of a rectangle with the given `width` and `height`."""
    return 2 * (width + height)


@task("easy", INT)
def absolute_value(n):
    """returns the absolute value of the number `n`."""
    return abs(n)


@task("easy", NAT)
def last_digit(n):
    """returns the last decimal digit of the non-negative integer `n`, as an integer."""
    return n % 10


@task("easy", NAT)
def minutes_to_seconds(minutes):
    """converts a number of `minutes` into seconds."""
    return minutes * 60


@task("easy", NAT)
def hours_to_minutes(hours):
    """converts a number of `hours` into minutes."""
    return hours * 60


@task("easy", INT)
def is_positive(n):
    """returns True if `n` is greater than zero and False otherwise."""
    return n > 0


@task("easy", INT, calls=[(9,), (10,), (11,), (5,), (-1,)])
def has_at_most_one_digit(n):
    """returns True if the integer `n` is between 0 and 9 inclusive and False otherwise."""
    return 0 <= n <= 9


@task("easy", NAT)
def count_digits(n):
    """returns the number of decimal digits of the non-negative integer `n`. The number 0 has one digit."""
    return len(str(n))


@task("easy", POS)
def cube_volume(side):
    """returns the volume of a cube whose edges have length `side`."""
    return side**3


@task("easy", INT, INT)
def difference(a, b):
    """returns the absolute difference between `a` and `b`."""
    return abs(a - b)


@task("easy", INT)
def negate(n):
    """returns the number `n` with its sign changed."""
    return -n


@task("easy", NAT, POS)
def remainder_after_division(a, b):
    """returns the remainder when `a` is divided by `b`."""
    return a % b


@task("easy", NAT, POS)
def whole_boxes(items, per_box):
    """returns how many boxes can be filled completely when there are `items` items and each box holds `per_box` items."""
    return items // per_box


@task("easy", NAT, POS)
def is_multiple_of(n, k):
    """returns True if `n` is a multiple of `k` and False otherwise."""
    return n % k == 0


@task("easy", INT, INT, INT)
def smallest_of_three(a, b, c):
    """returns the smallest of the three numbers `a`, `b` and `c`."""
    return min(a, b, c)


@task("easy", INT, INT, INT)
def sum_of_three(a, b, c):
    """returns the sum of the three numbers `a`, `b` and `c`."""
    return a + b + c


@task("easy", calls=[(5, 1, 10), (0, 1, 10), (10, 1, 10), (1, 1, 10), (11, 1, 10), (-3, -5, -1), (4, 5, 6), (7, 7, 7), (8, 7, 7), (2, 0, 3)])
def is_between(n, low, high):
    """returns True if `n` is at least `low` and at most `high`, and False otherwise."""
    return low <= n <= high


@task("easy", calls=[(0,), (100,), (10,), (37,), (-40,), (25,), (5,), (-10,), (1000,), (50,)])
def celsius_to_fahrenheit(celsius):
    """converts a temperature from `celsius` to Fahrenheit. The result is celsius times 9 divided by 5, plus 32, as a float."""
    return celsius * 9 / 5 + 32


@task("easy", NAT)
def next_even(n):
    """returns the smallest even number that is greater than `n`."""
    return n + 2 - n % 2


@task("easy", POS, POS)
def average_of_two(a, b):
    """returns the average of `a` and `b` as a float."""
    return (a + b) / 2


@task("easy", calls=[(10,), (20,), (13,), (12,), (19,), (21,), (0,), (16,), (99,), (15,)])
def is_teenager(age):
    """returns True if `age` is from 13 to 19 inclusive, and False otherwise."""
    return 13 <= age <= 19


@task("easy", POS)
def sum_up_to(n):
    """returns the sum of all integers from 1 to `n` inclusive."""
    return n * (n + 1) // 2


@task("easy", INT)
def sign_of(n):
    """returns 1 if `n` is positive, -1 if `n` is negative, and 0 if `n` is zero."""
    return (n > 0) - (n < 0)


@task("easy", calls=[(2, 3), (5, 0), (0, 4), (1, 9), (10, 2), (3, 4), (7, 1), (2, 10), (-2, 3), (-1, 6)])
def power_of(base, exponent):
    """returns `base` raised to the non-negative integer `exponent`."""
    return base**exponent


@task("easy", NAT, calls=[(50,), (49,), (51,)])
def passed_exam(score):
    """returns the string "pass" if `score` is at least 50 and the string "fail" otherwise."""
    return "pass" if score >= 50 else "fail"


@task("easy", POS, POS)
def total_price(unit_price, quantity):
    """returns the total price of `quantity` items that cost `unit_price` each."""
    return unit_price * quantity


@task("easy", INT, calls=[(15,), (14,)])
def is_divisible_by_three_and_five(n):
    """returns True if the integer `n` is divisible by both 3 and 5, and False otherwise."""
    return n % 15 == 0


@task("medium", calls=[(0,), (1,), (5,), (3,), (7,), (10,), (2,), (6,), (4,), (12,)])
def factorial_of(n):
    """returns the factorial of the non-negative integer `n`. The factorial of 0 is 1."""
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result


@task("medium", NAT)
def digit_sum(n):
    """returns the sum of the decimal digits of the non-negative integer `n`."""
    return sum(int(d) for d in str(n))


@task("medium", POS, calls=[(2,), (9,), (17,), (1,), (97,)])
def is_prime_number(n):
    """returns True if the positive integer `n` is a prime number and False otherwise. The number 1 is not prime."""
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


@task("medium", calls=[(0,), (1,), (2,), (7,), (10,), (3,), (5,), (20,), (15,), (30,)])
def fibonacci_number(n):
    """returns the `n`-th Fibonacci number, where the 0th is 0, the 1st is 1 and each further one is the sum of the two before."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@task("medium", POS)
def divisors_of(n):
    """returns the list of all positive divisors of the positive integer `n` in increasing order."""
    return [d for d in range(1, n + 1) if n % d == 0]


@task("medium", NAT)
def reverse_digits(n):
    """returns the integer made of the decimal digits of the non-negative integer `n` in reverse order. For example 120 gives 21."""
    return int(str(n)[::-1])


@task("medium", calls=[(1,), (15,), (3,), (5,), (7,), (30,), (9,), (10,), (22,), (45,)])
def fizz_buzz_word(n):
    """returns "FizzBuzz" if `n` is divisible by 15, "Fizz" if it is divisible by 3, "Buzz" if it is divisible by 5, and otherwise the number as a string."""
    if n % 15 == 0:
        return "FizzBuzz"
    if n % 3 == 0:
        return "Fizz"
    return "Buzz" if n % 5 == 0 else str(n)


@task("medium", calls=[(2000,), (1900,), (2024,), (2023,), (1600,), (2100,), (1996,), (2400,), (1,), (4,)])
def is_leap_year(year):
    """returns True if `year` is a leap year: divisible by 4, but not by 100 unless it is also divisible by 400."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@task("medium", POS, POS, calls=[(12, 18), (7, 5), (100, 75)])
def greatest_common_divisor(a, b):
    """returns the greatest common divisor of the positive integers `a` and `b`."""
    while b:
        a, b = b, a % b
    return a


@task("medium", calls=[(3661,), (0,), (59,), (60,), (3600,), (86399,), (7325,), (100,), (45296,), (600,)])
def split_seconds(seconds):
    """returns a tuple (hours, minutes, seconds) for the given number of `seconds`, where minutes and seconds are below 60."""
    return seconds // 3600, seconds // 60 % 60, seconds % 60


@task("medium", calls=[(95,), (90,), (89,), (80,), (75,), (70,), (60,), (59,), (0,), (100,)])
def letter_grade(score):
    """returns the grade for a `score`: "A" for 90 and above, "B" for 80 to 89, "C" for 70 to 79, "D" for 60 to 69 and "F" below 60."""
    for limit, grade in ((90, "A"), (80, "B"), (70, "C"), (60, "D")):
        if score >= limit:
            return grade
    return "F"


@task("medium", calls=[(3, 4, 5), (1, 2, 3), (2, 2, 3), (10, 1, 1), (5, 5, 5), (7, 3, 5), (1, 1, 2), (6, 8, 10), (1, 10, 10), (4, 9, 4)])
def can_form_triangle(a, b, c):
    """returns True if three sticks of lengths `a`, `b` and `c` can form a triangle, that is if each is shorter than the other two together."""
    return a + b > c and a + c > b and b + c > a


@task("medium", NAT)
def to_binary_text(n):
    """returns the binary representation of the non-negative integer `n` as a string without a prefix. For example 6 gives "110"."""
    return bin(n)[2:]


@task("medium", POS)
def count_even_digits(n):
    """returns how many decimal digits of the positive integer `n` are even."""
    return sum(int(d) % 2 == 0 for d in str(n))


@task("medium", POS, calls=[(16,), (15,), (1,), (50,)])
def is_perfect_square(n):
    """returns True if the positive integer `n` is the square of an integer and False otherwise."""
    return round(n**0.5) ** 2 == n


@task("medium", calls=[(1, 5), (3, 3), (5, 2), (0, 4), (-2, 2), (10, 13), (-5, -3), (7, 8), (100, 101), (1, 10)])
def sum_of_range(first, last):
    """returns the sum of all integers from `first` to `last`, both included. If `first` is greater than `last`, the result is 0."""
    return sum(range(first, last + 1))


@task("medium", calls=[(5, 0, 10), (-3, 0, 10), (15, 0, 10), (0, 0, 10), (10, 0, 10), (7, 7, 7), (3, 4, 6), (9, 4, 6), (-8, -6, -2), (1, -2, 2)])
def clamp_value(n, low, high):
    """returns `n` limited to the range from `low` to `high`: `low` if `n` is smaller, `high` if `n` is larger, else `n` itself."""
    return max(low, min(n, high))


@task("medium", POS, calls=[(8,), (6,)])
def is_power_of_two(n):
    """returns True if the positive integer `n` is a power of two (1, 2, 4, 8, ...) and False otherwise."""
    return n & (n - 1) == 0


@task("medium", calls=[(3,), (1,), (5,), (2,), (4,), (0,), (6,), (8,), (10,), (7,)])
def multiples_row(n):
    """returns a list with the first five multiples of `n`, starting with `n` itself."""
    return [n * i for i in range(1, 6)]


@task("medium", calls=[(3, 5), (0, 0), (10, 1), (2, 7), (8, 3), (4, 4), (1, 12), (20, 0), (6, 2), (5, 9)])
def parking_fee(hours, rate):
    """returns the parking fee for a number of `hours`: the first two hours are free, each further hour costs `rate`."""
    return max(0, hours - 2) * rate


@task("medium", INTS)
def count_multiples_of_three(numbers):
    """returns how many of the integers in the list `numbers` are divisible by 3."""
    return sum(n % 3 == 0 for n in numbers)


@task("hard", POS, calls=[(6,), (28,), (12,), (496,), (27,)])
def is_perfect_number(n):
    """returns True if the positive integer `n` equals the sum of its positive divisors other than itself, and False otherwise."""
    return n > 1 and sum(d for d in range(1, n) if n % d == 0) == n


@task("hard", calls=[(1,), (6,), (7,), (27,), (2,), (3,), (16,), (10,), (97,), (12,)])
def collatz_steps(n):
    """returns how many steps it takes to reach 1 from the positive integer `n` when an even number is halved and an odd number is tripled and increased by one."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@task("hard", POS, calls=[(12,), (360,), (97,)])
def prime_factors(n):
    """returns the list of prime factors of the positive integer `n` in increasing order, repeated factors repeated. For 1 the list is empty."""
    factors, d = [], 2
    while n > 1:
        while n % d == 0:
            factors.append(d)
            n //= d
        d += 1
    return factors


@task("hard", calls=[(10, 2), (255, 16), (0, 7), (8, 8), (35, 36), (100, 3), (5, 10), (64, 4), (31, 2), (1295, 36)])
def to_base(n, base):
    """returns the non-negative integer `n` written in the given `base` (2 to 36) as a string, with the digits 0-9 followed by the letters a-z. Zero is "0"."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while n:
        text = digits[n % base] + text
        n //= base
    return text or "0"


@task("hard", calls=[(10,), (2,), (1,), (30,), (20,), (3,), (11,), (50,), (0,), (13,)])
def primes_up_to(limit):
    """returns the list of all prime numbers that are at most `limit`, in increasing order."""
    return [n for n in range(2, limit + 1) if all(n % d for d in range(2, int(n**0.5) + 1))]


@task("hard", NAT, calls=[(9875,), (38,), (19,)])
def digital_root(n):
    """adds the decimal digits of the non-negative integer `n` again and again until a single digit is left, and returns that digit."""
    while n > 9:
        n = sum(int(d) for d in str(n))
    return n


@task("hard", calls=[(153,), (10,), (370,), (9,), (100,), (9474,), (8208,), (1,), (500,), (1634,)])
def is_narcissistic(n):
    """returns True if the positive integer `n` equals the sum of its decimal digits, each raised to the power of the number of digits."""
    text = str(n)
    return sum(int(d) ** len(text) for d in text) == n


@task("hard", calls=[(41,), (0,), (99,), (25,), (5,), (10,), (68,), (1,), (75,), (30,)])
def coins_needed(cents):
    """returns the smallest number of coins that make `cents` when coins of 25, 10, 5 and 1 are available."""
    count = 0
    for coin in (25, 10, 5, 1):
        count += cents // coin
        cents %= coin
    return count


@task("hard", calls=[(1, 10), (12, 15), (20, 20), (0, 0), (95, 105), (1, 100), (7, 13), (200, 210), (8, 12), (33, 44)])
def palindromes_between(low, high):
    """returns the list of all integers from `low` to `high` inclusive that read the same forwards and backwards."""
    return [n for n in range(low, high + 1) if str(n) == str(n)[::-1]]


@task("hard", SOME)
def second_difference_sum(numbers):
    """takes the list `numbers`, builds the list of differences between neighbours (each number minus the one before), and returns the sum of the absolute values of those differences. A list of one number gives 0."""
    return sum(abs(b - a) for a, b in zip(numbers, numbers[1:]))


@task("hard", NAT, calls=[(5,), (15,)])
def longest_ones_run(n):
    """returns the length of the longest run of consecutive 1 bits in the binary representation of the non-negative integer `n`."""
    return max(len(run) for run in bin(n)[2:].split("0"))

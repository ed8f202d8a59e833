"""Tasks about strings."""

from pools import POS, SENTENCE, TEXT, WORD, task


@task("easy", WORD)
def first_character(word):
    """returns the first character of the non-empty string `word`."""
    return word[0]


@task("easy", WORD)
def last_character(word):
    """returns the last character of the non-empty string `word`."""
    return word[-1]


@task("easy", TEXT)
def string_length(text):
    """returns the number of characters in the string `text`."""
    return len(text)


@task("easy", TEXT)
def to_upper_case(text):
    """returns the string `text` with all letters in upper case."""
    return text.upper()


@task("easy", TEXT)
def reverse_text(text):
    """returns the characters of the string `text` in reverse order."""
    return text[::-1]


@task("easy", SENTENCE)
def count_words(sentence):
    """returns the number of words in the string `sentence`. Words are separated by spaces."""
    return len(sentence.split())


@task("easy", SENTENCE)
def split_into_words(sentence):
    """returns the list of words in the string `sentence`. Words are separated by spaces."""
    return sentence.split()


@task("easy", SENTENCE)
def first_word(sentence):
    """returns the first word of the string `sentence`. Words are separated by spaces."""
    return sentence.split()[0]


@task("easy", WORD, WORD)
def join_with_space(first, second):
    """returns the strings `first` and `second` joined with one space between them."""
    return first + " " + second


@task("easy", calls=[("ab", 3), ("x", 5), ("hey", 1), ("no", 0), ("", 4), ("-", 10), ("ha", 2), ("abc", 2), ("!", 3), ("la", 4)])
def repeat_string(s, times):
    """returns the string `s` repeated `times` times."""
    return s * times


@task("easy", calls=[("Is it?",), ("Yes.",), ("?",), ("",), ("Why? Because",), ("really??",), ("a?b",), ("Who",), ("ok ?",), ("? no",)])
def is_question(text):
    """returns True if the string `text` ends with a question mark and False otherwise."""
    return text.endswith("?")


@task("easy", WORD, calls=[("Apple",), ("Anna",), ("banana",)])
def starts_with_capital_a(word):
    """returns True if the string `word` starts with the capital letter "A" and False otherwise."""
    return word.startswith("A")


@task("easy", TEXT)
def remove_spaces(text):
    """returns the string `text` without any spaces."""
    return text.replace(" ", "")


@task("easy", TEXT)
def count_letter_a(text):
    """returns how many times the lower case letter "a" occurs in the string `text`."""
    return text.count("a")


@task("easy", WORD)
def add_exclamation(word):
    """returns the string `word` followed by an exclamation mark."""
    return word + "!"


@task("easy", TEXT)
def strip_spaces(text):
    """returns the string `text` without the spaces at its start and at its end."""
    return text.strip()


@task("easy", WORD)
def is_palindrome_word(word):
    """returns True if the string `word` reads the same forwards and backwards, and False otherwise."""
    return word == word[::-1]


@task("easy", WORD)
def greet(name):
    """returns the string "Hello, " followed by the given `name` and an exclamation mark. For example greet("Bo") gives "Hello, Bo!"."""
    return f"Hello, {name}!"


@task("easy", TEXT)
def is_empty_string(text):
    """returns True if the string `text` is empty and False otherwise."""
    return text == ""


@task("easy", WORD, WORD, calls=[("apple", "p"), ("sky", "k")])
def contains_part(text, part):
    """returns True if the string `part` occurs in the string `text`, and False otherwise."""
    return part in text


@task("easy", calls=[("abcdef",), ("xyz",), ("hello",), ("python",), ("123456",), ("aaa",), ("Banana",), ("abc",), ("three",), ("upsolve",)])
def first_three_letters(word):
    """returns the first three characters of the string `word`, which has at least three characters."""
    return word[:3]


@task("easy", calls=[("42",), ("0",), ("-7",), ("100",), ("15",), ("-20",), ("999",), ("1",), ("64",), ("-1",)])
def parse_number(text):
    """converts the string `text`, which holds an integer, to an int."""
    return int(text)


@task("easy", WORD, WORD)
def longer_word(first, second):
    """returns the longer of the strings `first` and `second`. If both have the same length it returns `first`."""
    return second if len(second) > len(first) else first


@task("easy", WORD, calls=[("hello",), ("bed",)])
def has_letter_e(word):
    """returns True if the string `word` contains the lower case letter "e", and False otherwise."""
    return "e" in word


@task("easy", TEXT)
def dashes_for_spaces(text):
    """returns the string `text` with every space replaced by a dash "-"."""
    return text.replace(" ", "-")


@task("easy", TEXT)
def swap_letter_case(text):
    """returns the string `text` with upper case letters made lower case and lower case letters made upper case."""
    return text.swapcase()


@task("easy", WORD)
def double_each_character(word):
    """returns a string in which every character of `word` is repeated twice. For example "abc" gives "aabbcc"."""
    return "".join(c * 2 for c in word)


@task("easy", WORD)
def characters_of(word):
    """returns the list of the characters of the string `word`, in order."""
    return list(word)


@task("easy", calls=[("12345",), ("abc",), ("12a",), ("0",), ("-5",), ("7 7",), ("99999",), ("1.5",), ("007",), ("x1",)])
def only_digits(text):
    """returns True if the non-empty string `text` consists of decimal digits only, and False otherwise."""
    return text.isdigit()


@task("easy", WORD)
def capitalize_word(word):
    """returns the string `word` with its first letter in upper case and all the others in lower case."""
    return word.capitalize()


@task("easy", WORD)
def drop_last_character(word):
    """returns the non-empty string `word` without its last character."""
    return word[:-1]


@task("easy", WORD, POS)
def label_with_number(word, number):
    """returns the string `word` followed by a dash and the integer `number`. For example ("box", 3) gives "box-3"."""
    return f"{word}-{number}"


@task("medium", TEXT)
def count_vowels(text):
    """returns the number of vowels (a, e, i, o, u, in either case) in the string `text`."""
    return sum(c in "aeiouAEIOU" for c in text)


@task("medium", TEXT)
def remove_vowels(text):
    """returns the string `text` without its vowels (a, e, i, o, u, in either case)."""
    return "".join(c for c in text if c not in "aeiouAEIOU")


@task("medium", SENTENCE)
def longest_word(sentence):
    """returns the longest word of the string `sentence`; if several are equally long, the first of them."""
    return max(sentence.split(), key=len)


@task("medium", SENTENCE)
def reverse_word_order(sentence):
    """returns the words of the string `sentence` in reverse order, joined by single spaces."""
    return " ".join(reversed(sentence.split()))


@task("medium", SENTENCE)
def initials_of(sentence):
    """returns the first letters of all the words of the string `sentence`, in upper case, as one string."""
    return "".join(w[0].upper() for w in sentence.split())


@task("medium", TEXT)
def count_digits_in_text(text):
    """returns how many characters of the string `text` are decimal digits."""
    return sum(c.isdigit() for c in text)


@task("medium", calls=[("A man a plan",), ("level",), ("No lemon no melon",), ("",), ("Never odd or even",), ("hello",), ("Was it a cat",), ("taco cat",), ("ab",), ("Step on no pets",)])
def is_palindrome_phrase(text):
    """returns True if the string `text` reads the same forwards and backwards when spaces and the case of letters are ignored."""
    cleaned = text.replace(" ", "").lower()
    return cleaned == cleaned[::-1]


@task("medium", WORD)
def letter_counts(word):
    """returns a dictionary that maps every character of the string `word` to how often it occurs."""
    return {c: word.count(c) for c in word}


@task("medium", calls=[("abc", 1), ("xyz", 3), ("hello", 0), ("Zoo", 1), ("a b", 2), ("zzz", 25), ("Python", 13), ("abc", 26), ("Ok!", 5), ("", 4)])
def caesar_shift(text, shift):
    """returns the string `text` with every letter moved `shift` places forward in the alphabet, wrapping from z to a and keeping its case; other characters stay."""
    out = ""
    for c in text:
        if c.isalpha():
            start = ord("a") if c.islower() else ord("A")
            c = chr((ord(c) - start + shift) % 26 + start)
        out += c
    return out


@task("medium", WORD, WORD, calls=[("listen", "silent"), ("aab", "abb"), ("tea", "ate"), ("abc", "abcd"), ("rat", "car")])
def are_anagrams(first, second):
    """returns True if the strings `first` and `second` consist of the same characters, each equally often, and False otherwise."""
    return sorted(first) == sorted(second)


@task("medium", SENTENCE)
def capitalize_each_word(sentence):
    """returns the string `sentence` with the first letter of every word in upper case and the rest unchanged. Words are separated by single spaces."""
    return " ".join(w[:1].upper() + w[1:] for w in sentence.split(" "))


@task("medium", WORD)
def remove_repeated_letters(word):
    """returns the string `word` with only the first occurrence of each character kept, in order."""
    return "".join(dict.fromkeys(word))


@task("medium", calls=[("hello_world",), ("a",), ("my_long_name",), ("x_y",), ("already",), ("first_second",), ("to_camel_case",), ("is_ok",), ("one_two_three_four",), ("b_c",)])
def snake_to_camel(name):
    """converts the snake_case string `name` to camelCase: underscores are dropped and every word but the first starts with a capital letter."""
    first, *rest = name.split("_")
    return first + "".join(w.capitalize() for w in rest)


@task("medium", calls=[("a,b,c",), ("",), ("1,2",), ("x",), ("red,green",), ("a,,b",), (",",), ("p,q,r,s",), ("one",), ("k,",)])
def count_commas(text):
    """returns how many comma-separated fields the string `text` has. A text without a comma has one field."""
    return text.count(",") + 1


@task("medium", SENTENCE)
def word_lengths(sentence):
    """returns the list of the lengths of the words in the string `sentence`."""
    return [len(w) for w in sentence.split()]


@task("medium", TEXT)
def every_second_character(text):
    """returns the string made of the characters of `text` at the even positions 0, 2, 4 and so on."""
    return text[::2]


@task("medium", calls=[("7", 3), ("42", 5), ("123", 2), ("", 2), ("9", 1), ("5", 4), ("abc", 6), ("10", 2), ("x", 0), ("77", 3)])
def pad_with_zeros(text, width):
    """returns the string `text` with zeros added on the left until it has `width` characters; a text that is long enough stays as it is."""
    return text.rjust(width, "0")


@task("medium", calls=[("user@mail.com",), ("nomail",), ("a@b.c",), ("@x.y",), ("x@y",), ("two@@at.com",), ("me@site.org",), ("",), ("a.b@c",), ("q@.d",)])
def looks_like_email(text):
    """returns True if the string `text` contains exactly one "@", has at least one character before it, and has a dot somewhere after it; otherwise False."""
    return text.count("@") == 1 and text.index("@") > 0 and "." in text.split("@")[1]


@task("medium", WORD, WORD)
def common_prefix(first, second):
    """returns the longest string that both `first` and `second` start with; it may be empty."""
    n = 0
    while n < min(len(first), len(second)) and first[n] == second[n]:
        n += 1
    return first[:n]


@task("medium", SENTENCE, calls=[("one two one two one",)])
def most_common_word(sentence):
    """returns the word that occurs most often in the string `sentence`; if several do, the one that appears first."""
    words = sentence.split()
    return max(words, key=words.count)


@task("medium", TEXT)
def middle_part(text):
    """returns the string `text` without its first and its last character. A text of fewer than three characters gives an empty string."""
    return text[1:-1]


@task("hard", calls=[("aaabb",), ("abc",), ("",), ("zzzz",), ("aabbaa",), ("x",), ("hhello",), ("1112",), ("wwwwwwwwwww",), ("mississippi",)])
def run_length_encode(text):
    """replaces every run of equal characters in the string `text` by the character followed by the length of the run. For example "aaab" gives "a3b1"."""
    out, i = "", 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        out += f"{text[i]}{j - i}"
        i = j
    return out


@task("hard", calls=[("a3b1",), ("x10",), ("",), ("z1y2",), ("q5",), ("a1b1c1",), ("k12m2",), ("h2e1",), ("w3",), ("b2a2b2",)])
def run_length_decode(code):
    """expands a string `code` in which every character is followed by a count, so that each character is repeated that often. For example "a3b1" gives "aaab"."""
    out, i = "", 0
    while i < len(code):
        j = i + 1
        while j < len(code) and code[j].isdigit():
            j += 1
        out += code[i] * int(code[i + 1 : j])
        i = j
    return out


@task("hard", calls=[("()",), ("([)]",), ("{[()]}",), ("",), ("((",), (")(",), ("a(b)c",), ("[{]}",), ("((()))[]",), ("}",)])
def brackets_balanced(text):
    """returns True if every bracket (, [ or { in the string `text` is closed by the matching bracket in the right order, and False otherwise; other characters are ignored."""
    stack, match = [], {")": "(", "]": "[", "}": "{"}
    for c in text:
        if c in "([{":
            stack.append(c)
        elif c in match and (not stack or stack.pop() != match[c]):
            return False
    return not stack


@task("hard", calls=[("III",), ("IV",), ("IX",), ("LVIII",), ("MCMXCIV",), ("X",), ("XL",), ("CD",), ("MMXXVI",), ("I",)])
def roman_to_int(roman):
    """converts the Roman numeral `roman` (letters I, V, X, L, C, D, M, with the usual subtraction rule) to an integer."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for a, b in zip(roman, roman[1:] + "I"):
        total += -values[a] if values[a] < values[b] else values[a]
    return total


@task("hard", calls=[(4,), (9,), (58,), (1994,), (1,), (40,), (3,), (400,), (2026,), (90,)])
def int_to_roman(n):
    """converts the integer `n` (from 1 to 3999) to a Roman numeral in upper case."""
    out = ""
    for value, text in ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        out += text * (n // value)
        n %= value
    return out


@task("hard", calls=[("aabbb",), ("abc",), ("",), ("zzzz",), ("aabbaaa",), ("x",), ("hello",), ("1122",), ("wwwz",), ("mississippi",)])
def longest_character_run(text):
    """returns the length of the longest run of equal consecutive characters in the string `text`; an empty text gives 0."""
    best = run = 0
    for i, c in enumerate(text):
        run = run + 1 if i and text[i - 1] == c else 1
        best = max(best, run)
    return best


@task("hard", calls=[("swiss",), ("aabb",), ("x",), ("level",), ("",), ("abcab",), ("noon",), ("aab",), ("zz",), ("queue",)])
def first_unique_character(text):
    """returns the first character of the string `text` that occurs only once in it, or an empty string if there is none."""
    return next((c for c in text if text.count(c) == 1), "")


@task("hard", calls=[("abc", "abd"), ("abc", "abc"), ("cat", "cats"), ("", "a"), ("abc", "xyz"), ("house", "hose"), ("ab", "ba"), ("", ""), ("kit", "kites"), ("pale", "bale")])
def one_edit_apart(first, second):
    """returns True if the string `second` can be made from `first` by exactly one change: inserting, deleting or replacing one character."""
    if first == second or abs(len(first) - len(second)) > 1:
        return False
    i = 0
    while i < min(len(first), len(second)) and first[i] == second[i]:
        i += 1
    return first[i + 1 :] == second[i + 1 :] or first[i:] == second[i + 1 :] or first[i + 1 :] == second[i:]


@task("hard", calls=[("a=1;b=2",), ("",), ("x=10",), ("k=v;k=w",), ("name=Bo;age=7",), ("p=;q=1",), ("a=b",), ("one=1;two=2;three=3",), ("z=zz",), ("c=3;d=4",)])
def parse_settings(text):
    """turns a string `text` such as "a=1;b=2" into a dictionary of strings, {"a": "1", "b": "2"}. A later value for the same key wins; an empty text gives an empty dictionary."""
    return dict(part.split("=") for part in text.split(";")) if text else {}


@task("hard", calls=[("3+4",), ("10-2+5",), ("7",), ("1+2+3",), ("0-5",), ("100-99",), ("8-8",), ("12+30-2",), ("5-10",), ("9+0",)])
def evaluate_sum(expression):
    """evaluates the string `expression`, which consists of non-negative integers joined by + and - without spaces, from left to right, and returns the integer."""
    return sum(int(t) for t in expression.replace("-", "+-").split("+"))


@task("hard", SENTENCE)
def pig_latin(sentence):
    """moves the first letter of every word of the string `sentence` to the word's end and adds "ay". For example "the cat" gives "hetay atcay"."""
    return " ".join(w[1:] + w[0] + "ay" for w in sentence.split())

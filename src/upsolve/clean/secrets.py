"""Checks before an archive is published: secrets, personal data, and code without a clear licence or origin.

Keys are found by the detectors of detect-secrets that know the form of a provider's keys. Detectors that judge by entropy or by the name of a
variable are left out, because they flag alphabets, and exercises about passwords. Phone numbers with a country code are found by phonenumbers.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any

from upsolve.clean.check import Action, Check, Contents, Fault, mask
from upsolve.languages import PYTHON
from upsolve.types import Task
from upsolve.verify.analysis.syntax import nodes_of, normalise, python_tree, tree_of

__all__ = ["LICENCE", "LICENCES", "PROVENANCE", "SECRETS", "Secret", "find_secrets", "quoted_spans"]

LICENCE = ("license", "licence", "License", "Licence", "LICENSE", "license_type", "repo_license", "licenses")
"""Fields that may name a licence; the first one with a value counts, the attempt's before the task's."""
SOURCE = ("source", "Source", "url", "URL", "repo", "repo_name", "repository", "origin")
"""Fields that may name the origin of an attempt or its task."""
AUTHOR = ("author", "Author", "authors", "user", "username", "user_id")
"""Fields that may name an author."""


def field_of(table: str, names: tuple[str, ...]) -> str:
    """Return the SQL expression of the first of some fields of ``extra`` that is not empty."""
    parts = (f"nullif(json_extract_string({table}.extra, '$.{name}'), '')" for name in names)
    return f"case when json_valid({table}.extra) then coalesce({', '.join(parts)}) end"


STATED = f"""
select attempts.place, attempts.attempt_id,
    coalesce({field_of("attempts", LICENCE)}, {field_of("tasks", LICENCE)}) as licence,
    coalesce(nullif(attempts.author, ''), {field_of("attempts", AUTHOR)}) as author,
    coalesce({field_of("attempts", SOURCE)}, nullif(tasks.source, ''), {field_of("tasks", SOURCE)}) as source
from attempts left join (select distinct on (task_id) task_id, source, extra from tasks order by place) tasks using (task_id)
order by attempts.place
"""  # noqa: S608  names of ours


def find_licences(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts without a licence and, if ``keep`` names licences, attempts with another licence."""
    keep = {name.lower() for name in options["keep"]}
    for place, attempt_id, licence, _, _ in contents.rows(STATED):
        name = (licence or "none").lower()
        if keep and name not in keep:
            reason = f"licence: {licence}, not one of {', '.join(options['keep'])}" if licence else "no licence is stated"
            yield Fault("attempts", place, attempt_id, reason, f"licence {licence or 'not stated'}")
        elif not keep and not licence:
            yield Fault("attempts", place, attempt_id, "no licence is stated", "licence not stated", Action.REPORT)


def find_provenance(contents: Contents, _options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts without an author, and attempts without a source."""
    for place, attempt_id, _, author, source in contents.rows(STATED):
        for value, kind in ((author, "no author"), (source, "no source")):
            if not value:
                yield Fault("attempts", place, attempt_id, f"{kind} is stated", kind, Action.REPORT)


LICENCES = Check(
    find_licences,
    "attempts without a licence in their own or their task's `extra`; with `keep`, those under other licences",
    "a model trained on them may not be published",
    {"keep": ()},
)
PROVENANCE = Check(
    find_provenance,
    "attempts without an author or a source, in their fields or in `extra`",
    "they cannot be traced, capped by author, or removed on request",
)


PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.DOTALL
)
LEFT_OUT = frozenset(
    {
        *("Base64 High Entropy String", "Hex High Entropy String", "Secret Keyword"),
        *("Cloudant Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials", "SoftLayer Credentials"),
        *("Artifactory Credentials", "Private Key", "Public IP (ipv4)"),
    }
)
"""Detectors that are left out: they judge by entropy or names of variables, or match words; private keys are found with their bodies."""
EMAIL = re.compile(r"(?<![\w.+-])[\w+-]+(?:\.[\w+-]+)*@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,24}(?![\w-])")
RESERVED = re.compile(r"(?:[@.]example\.(?:com|net|org|edu)|[@.](?:example|test|invalid|localhost|local))$", re.IGNORECASE)
"""Reserved e-mail addresses (RFC 2606)."""
FOUR_NUMBERS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)")
PLUS_NUMBER = re.compile(r"\+\(?\d")
CANDIDATE = (
    r"[[:alnum:]_+/=.-]{20}|@[[:alnum:].-]+\.|://[^[:space:]/]+:[^[:space:]/]+@|PRIVATE KEY|[0-9]\.[0-9]+\.[0-9]+\.[0-9]"
    r"|\+[(]?[0-9][0-9 ().-]{6}"
)
"""Regular expression that every text with a secret matches, so that DuckDB can skip other texts."""
PROGRAMS = f"""
select attempt_id, any_value(task_id), any_value(language), any_value(code), list(place order by place)
from attempts where regexp_matches(code, '{CANDIDATE}') group by attempt_id order by min(place)
"""  # noqa: S608
ANSWERS = f"""
select [place], attempt_id, task_id, code, answer from attempts
where answer <> '' and regexp_matches(answer, '{CANDIDATE}') order by place
"""  # noqa: S608
ABOUT = f"""
select place, attempt_id, coalesce(author, ''), coalesce(extra, '') from attempts
where regexp_matches(concat_ws(' ', author, extra), '{CANDIDATE}') order by place
"""  # noqa: S608
KINDS = ("email", "ip", "key", "phone")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a text."""

    kind: str
    """Kind of the secret, one of ``KINDS``."""
    text: str
    """The secret."""


@cache
def detectors() -> list[Any]:
    """Return the detectors of keys."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    every: dict[str, Any] = {**get_mapping_from_secret_type_to_class()}
    return [detector() for name, detector in every.items() if name not in LEFT_OUT]


def find_secrets(text: str, quoted: Sequence[range] | None = None) -> list[Secret]:
    """Return the secrets of a text, each once. Outside of ``quoted`` spans only keys are found, since ``a@b.shape`` is a matrix product."""
    found = [Secret("key", text) for text in find_keys(text)]
    others: list[Secret] = []
    others += [Secret("email", match[0]) for match in EMAIL.finditer(text) if not RESERVED.search(match[0])]
    others += [Secret("ip", match[0]) for match in FOUR_NUMBERS.finditer(text) if is_public(match[0])]
    if PLUS_NUMBER.search(text):
        from phonenumbers import PhoneNumberMatcher

        others += [Secret("phone", match.raw_string) for match in PhoneNumberMatcher(text, None)]
    found += [one for one in others if quoted is None or any(one.text in text[span.start : span.stop] for span in quoted)]
    return list(dict.fromkeys(found))


def find_keys(text: str) -> Iterator[str]:
    """Yield the keys and passwords of a text; a match without a digit is a word and is skipped."""
    yield from (match[0] for match in PRIVATE_KEY.finditer(text))
    for detector in detectors():
        if any(detector.analyze_string(text)):
            keys = (key_of(match) for pattern in detector.denylist for match in pattern.finditer(text))
            yield from (key for key in keys if any(map(str.isdigit, key)))


def key_of(match: re.Match[str]) -> str:
    """Return the key in a match: its longest group, such as a password in an address; the whole match if the groups are short parts of the key."""
    longest = max((group for group in match.groups() if group), key=len, default="")
    return longest if 3 * len(longest) >= len(match[0]) else match[0]


def is_public(address: str) -> bool:
    """Return whether four numbers are an address of the public internet."""
    try:
        return ip_address(address).is_global
    except ValueError:
        return False


def find(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tasks and attempts with secrets; a text that also occurs in the task's tests belongs to the problem and is only reported."""
    names: dict[str, str] = {}
    for place, task in contents.tasks():
        secrets = chosen(find_secrets(task.prompt), options)
        yield from faults_of(Text("prompt", task.prompt, task.task_id, [place]), secrets, task, names)
    for attempt_id, task_id, language, code, places in contents.rows(PROGRAMS):
        secrets = chosen(find_secrets(code), options)
        if any(secret.kind != "key" for secret in secrets):
            secrets = chosen(find_secrets(code, quoted_spans(code, language)), options)
        yield from faults_of(
            Text("code", code, attempt_id, places, language), secrets, contents.stored_tasks.get(task_id), names
        )
    for places, attempt_id, task_id, code, answer in contents.rows(ANSWERS):
        secrets = chosen(find_secrets(answer.replace(code.strip(), "")), options)
        prose = [secret for secret in secrets if secret.kind == "key" or secret.text not in code]
        yield from faults_of(Text("answer", answer, attempt_id, places), prose, contents.stored_tasks.get(task_id), names)
    yield from find_beside(contents, options)


def is_quoted(node: Any) -> bool:
    """Return whether a node is a comment or a string literal."""
    return "comment" in node.type or "string" in node.type


def quoted_spans(code: str, language: str) -> list[range]:
    """Return the spans of comments and string literals, in characters; the whole text if the language has no grammar."""
    root = tree_of(code, language)
    if root is None:
        return [range(len(code))]
    found = [(node.start_byte, node.end_byte) for node in nodes_of(root, is_quoted) if is_quoted(node)]
    data = code.encode("utf-8", "replace")
    places, character, byte = {0: 0}, 0, 0
    for place in sorted({place for span in found for place in span}):
        character += len(data[byte:place].decode("utf-8", "replace"))
        places[place], byte = character, place
    return [range(places[start], places[end]) for start, end in found]


def find_beside(contents: Contents, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield attempts whose author, or a value in ``extra``, is a secret. The attempts are only reported, since models do not learn from these fields."""
    for place, attempt_id, author, extra in contents.rows(ABOUT):
        for column, text in (("author", author), ("extra", extra)):
            for secret in chosen(find_secrets(text), options):
                yield Fault(
                    "attempts", place, attempt_id, f"{secret.kind} in {column}", f"{secret.kind} in {column}", Action.REPORT
                )


def chosen(secrets: Sequence[Secret], options: Mapping[str, Any]) -> list[Secret]:
    """Return the secrets of the kinds that the options name."""
    return [secret for secret in secrets if secret.kind in options["kinds"]]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be searched for secrets."""

    part: str
    """``prompt``, ``code`` or ``answer``."""
    text: str
    """The text."""
    record: str
    """Task id, or attempt id."""
    places: Sequence[int]
    """Places of the records that contain the text."""
    language: str = ""
    """Language of code."""


Redaction = tuple[Action, Mapping[str, str], bool]
"""Action on a text: ``REDACT`` if placeholders leave the syntax intact, ``REMOVE`` if they do not, or ``REPORT``; the placeholder of
each secret; and whether the program may behave differently."""


def faults_of(text: Text, secrets: Sequence[Secret], task: Task | None, names: dict[str, str]) -> Iterator[Fault]:
    """Yield the faults of a text, each with the placeholders of all its secrets, except secrets that the task's tests contain."""
    tests = "\n".join(f"{test.input}\n{test.expected}" for test in task.tests) if task else ""
    known = [secret for secret in secrets if secret.text in tests]
    placeholders = {
        secret.text: names.setdefault(secret.text, f"{secret.kind.upper()}_{len(names) + 1}")  # equal secrets have equal ones
        for secret in secrets
        if secret not in known
    }
    redaction = redact(text, placeholders)
    for secret in secrets:
        done = (Action.REPORT, {}, False) if secret in known else redaction
        yield from (fault_of(text, place, secret, done) for place in text.places)


def redact(text: Text, placeholders: Mapping[str, str]) -> Redaction:
    """Return the action for the secrets of a text; verdicts stay valid if only comments and docstrings change."""
    if text.part != "code" or not placeholders:
        return Action.REDACT, placeholders, False
    code, after = text.text, mask(text.text, placeholders)
    if not same_shape(code, after, text.language):
        return Action.REMOVE, placeholders, False
    before, now = (normalise(one, text.language, docstrings=False) for one in (code, after))
    moved = code.count("\n") != after.count("\n")
    return Action.REDACT, placeholders, moved or before != now


def same_shape(before: str, after: str, language: str) -> bool:
    """Return whether both programs are valid and their syntax trees differ only in names and literals."""
    if language in PYTHON:
        trees = [python_tree(code) for code in (before, after)]
        shapes = [[type(node) for node in ast.walk(tree)] if tree else None for tree in trees]
    else:
        roots = [tree_of(code, language) for code in (before, after)]
        shapes = [None if root is None or root.has_error else str(root) for root in roots]
    return shapes[0] is not None and shapes[0] == shapes[1]


def fault_of(text: Text, place: int, secret: Secret, redaction: Redaction) -> Fault:
    """Return the fault of one secret; the reason names its line and placeholder, not the secret."""
    action, placeholders, rejudge = redaction
    line = text.text[: text.text.index(secret.text)].count("\n") + 1
    endings = {
        Action.REPORT: ", which the tests have, too",
        Action.REMOVE: ", where a placeholder would break the syntax",
        Action.REDACT: f", now {placeholders.get(secret.text)}",
    }
    reason = f"{secret.kind} in line {line} of the {text.part}{endings[action]}"
    kind = f"{secret.kind} of the {'programs' if text.part == 'code' else text.part + 's'}"
    table = "tasks" if text.part == "prompt" else "attempts"
    return Fault(table, place, text.record, reason, kind, action, placeholders, rejudge)


SECRETS = Check(
    find,
    "keys, e-mail addresses, phone numbers and public IP addresses in programs, answers, prompts, authors and extra",
    "the model learns them by heart, and a published model or archive gives them away",
    {"kinds": KINDS},
    modules=("detect_secrets", "phonenumbers", "tree_sitter"),
)

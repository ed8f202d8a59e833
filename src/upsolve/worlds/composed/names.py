"""Names and sentences of composed tasks. No name is a substring of another."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["CHOICES", "MESSAGES", "OPINIONS", "PEOPLE", "ROOMS", "THINGS", "WISHES", "Names"]

T = TypeVar("T")

ROOMS = (
    *("kitchen", "lobby", "library", "workshop", "garage", "attic", "cellar", "office", "studio", "gym", "pantry", "terrace"),
    *("archive", "canteen", "laundry", "nursery", "porch", "lounge", "greenhouse", "boiler room", "meeting room", "mail room"),
)
PEOPLE = (
    *("Ann", "Bo", "Cleo", "Dina", "Emil", "Farah", "Gus", "Hana", "Ivo", "Jonas", "Kim", "Lea", "Mara", "Nils", "Olga", "Pia"),
    *("Quinn", "Rosa", "Sven", "Tara", "Uma", "Vito", "Wanda", "Yusuf", "Zoe"),
)
THINGS = (
    *("cup", "book", "lamp", "key", "parcel", "hammer", "tablet", "towel", "plant", "jacket", "umbrella", "camera", "toolbox"),
    *("vase", "blanket", "ladder", "drill", "basket", "bottle", "folder", "radio", "helmet", "charger", "mirror", "letter"),
)
MESSAGES = (
    *("dinner is ready", "the meeting starts now", "please come down", "the taxi is here", "good morning", "good night"),
    *(
        "all clear",
        "the round is done",
        "please close the window",
        "the guests have arrived",
        "the lights are off",
        "nothing to do",
    ),
    *(
        "the bus leaves soon",
        "please call home",
        "the parcel is gone",
        "the room is free",
        "the coffee is ready",
        "see you later",
    ),
    *("the printer works again", "please be quiet", "the doctor is waiting", "the heating is on", "lunch is late", "thank you"),
)
"""Messages for the robot to say."""
CHOICES = (
    ("Tea or coffee?", "coffee", ("tea", "coffee")),
    ("Which colour do you like?", "colour", ("red", "blue", "green")),
    ("Which day suits you?", "day", ("Monday", "Friday")),
    ("Which size do you need?", "size", ("small", "medium", "large")),
    ("Window open or closed?", "window", ("open", "closed")),
    ("Music or silence?", "music", ("music", "silence")),
)
"""Question, a word of it, options; the robot reports the answer."""
OPINIONS = (
    ("Are you ready?", "ready"),
    ("Is the meeting over?", "meeting"),
    ("Do you need help?", "help"),
    ("Are you hungry?", "hungry"),
    ("Is it too cold here?", "cold"),
    ("Shall we start?", "start"),
    ("Is the order complete?", "order"),
    ("Do you have time?", "time"),
)
"""Yes/no question, and a word of it."""
WISHES = (("Which one do you want?", "want"), ("What shall I bring?", "bring"), ("Which one is broken?", "broken"))
"""Question with two things as options, and a word of it."""


class Names:
    """Names and sentences for one task, in random order, each used at most once."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rooms, self.people, self.things = shuffled(ROOMS, rng), shuffled(PEOPLE, rng), shuffled(THINGS, rng)
        self.messages, self.opinions = shuffled(MESSAGES, rng), shuffled(OPINIONS, rng)
        self.choices, self.wishes = shuffled(CHOICES, rng), shuffled(WISHES, rng)

    def phrase(self, *ways: str) -> str:
        """Return a random one of several phrasings."""
        return self.rng.choice(ways)


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    """Return the items in random order."""
    return rng.sample(items, len(items))

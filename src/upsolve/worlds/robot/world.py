"""A building with rooms, doors, people and things, and a robot with one hand. Standard library only: it runs in the sandbox.

A world begins as
    robot: hall                                the room the robot is in
    rooms: [hall, office, store]
    closed: [store]                            rooms whose door is closed
    people: {Ann: {room: office, answers: {tea: "yes"}, opens: store}}
    things: {cup: hall, safe: office}
    heavy: [safe]                              things that cannot be lifted
A person's ``answers`` are what is said to a question that has the word in it, in any case ("" is in every question); the first
that fits counts. ``opens`` is a room whose door the person opens after a "yes" to a question that names it.
"""

__all__ = ["ACTIONS", "AbsentError", "DoorError", "HandError", "RoomError", "WeightError", "World"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ACTIONS = ("get_current_location", "get_all_rooms", "is_in_room", "go_to", "ask", "say", "pick", "place")
KEYS = {"robot", "rooms", "closed", "people", "things", "heavy"}


class RoomError(Exception):
    """There is no such room."""


class DoorError(Exception):
    """The door is closed."""


class AbsentError(Exception):
    """The person or the thing is not in the robot's room."""


class HandError(Exception):
    """The hand is full, or does not hold the thing."""


class WeightError(Exception):
    """The thing is too heavy."""


class World:
    """You program a service robot in a building. Every room has a door to the corridor, and a closed one cannot be passed. People
    and things are in rooms; names are exact. The robot has one hand. It does not know who or what is where: it has to go and look.
    """

    def __init__(self, initial: "dict[str, Any]") -> None:
        self.rooms: list[str] = initial["rooms"]
        self.people: dict[str, dict[str, Any]] = initial.get("people", {})
        self.things: dict[str, str] = dict(initial.get("things", {}))
        self.closed: set[str] = set(initial.get("closed", ()))
        self.heavy: set[str] = set(initial.get("heavy", ()))
        self.location: str = initial["robot"]
        self.hand = ""
        named = {self.location, *self.closed, *self.things.values(), *(person["room"] for person in self.people.values())}
        if odd := (initial.keys() - KEYS) | (named - {*self.rooms}) | (self.heavy - self.things.keys()):
            raise ValueError(f"not known in this world: {', '.join(sorted(odd))}")

    def state(self) -> "dict[str, Any]":
        """Return where the robot and all things are; what the robot holds is at ``hand``."""
        return {"location": self.location, "holding": self.hand, "at": dict(self.things), "closed": sorted(self.closed)}

    def get_current_location(self) -> str:
        """Gives the room the robot is in."""
        return self.location

    def get_all_rooms(self) -> list[str]:
        """Gives all rooms of the building, in a fixed order, closed ones too."""
        return list(self.rooms)

    def is_in_room(self, name: str) -> bool:
        """Tells whether a person or a thing is in the robot's room; what the robot holds is not."""
        return self.location in (self.things.get(name), self.people.get(name, {}).get("room"))

    def go_to(self, room: str) -> None:
        """Goes to a room; raises RoomError when there is none of that name, DoorError when its door is closed."""
        if room not in self.rooms:
            raise RoomError(f"there is no room {room}")
        if room in self.closed and room != self.location:
            raise DoorError(f"the door of {room} is closed")
        self.location = room

    def ask(self, person: str, question: str, options: list[str]) -> str:
        """Asks a person in the robot's room and gives the option chosen, or "" when none is right; raises AbsentError when the
        person is not here.
        """
        if not self.is_in_room(person) or person not in self.people:
            raise AbsentError(f"{person} is not in {self.location}")
        known, words = self.people[person], question.casefold()
        reply = next((answer for word, answer in known.get("answers", {}).items() if word.casefold() in words), "")
        chosen = next((option for option in options if option.strip().casefold() == reply.casefold()), "")
        if chosen and reply == "yes" and known.get("opens", "").casefold() in words:
            self.closed.discard(known.get("opens", ""))
        return chosen

    def say(self, text: str) -> None:
        """Says something to everybody in the robot's room."""

    def pick(self, thing: str) -> None:
        """Takes a thing from the robot's room; raises AbsentError when it is not here, HandError when the hand is full, WeightError
        when it is too heavy.
        """
        if self.things.get(thing) != self.location:
            raise AbsentError(f"{thing} is not in {self.location}")
        if self.hand:
            raise HandError(f"the hand holds {self.hand}")
        if thing in self.heavy:
            raise WeightError(f"{thing} is too heavy")
        self.hand, self.things[thing] = thing, "hand"

    def place(self, thing: str) -> None:
        """Puts the thing in the hand down in the robot's room; raises HandError when the hand does not hold it."""
        if not thing or self.hand != thing:
            raise HandError(f"the hand does not hold {thing}")
        self.hand, self.things[thing] = "", self.location

"""A lift in a house with numbered floors. Standard library only: it runs in the sandbox.

A world begins as {floors: 6, at: 0, waiting: {Ann: [2, 5]}}: Ann waits on floor 2 and wants to floor 5.
"""

ACTIONS = ("floor", "top", "waiting", "wish", "move", "enter", "leave")


class FloorError(Exception):
    """There is no such floor."""


class PersonError(Exception):
    """The person is not there."""


class World:
    """You program a lift. Floors count from 0. People wait on floors, get in and out when they are told to."""

    def __init__(self, initial: dict) -> None:
        self.floors, self.at = initial["floors"], initial["at"]
        self.places = {name: start for name, (start, _) in initial["waiting"].items()}
        self.wishes = {name: goal for name, (_, goal) in initial["waiting"].items()}
        self.inside = []

    def state(self) -> dict:
        """Return where the lift and all people are."""
        return {"at": self.at, "places": {**self.places, **dict.fromkeys(self.inside, "lift")}}

    def floor(self) -> int:
        """Gives the floor the lift is at."""
        return self.at

    def top(self) -> int:
        """Gives the highest floor."""
        return self.floors - 1

    def waiting(self) -> list[str]:
        """Gives the names of those who are on this floor."""
        return [name for name, place in self.places.items() if place == self.at]

    def wish(self, person: str) -> int:
        """Gives the floor that a person on this floor or in the lift wants to; raises PersonError when there is no such person here."""
        if person not in (*self.inside, *self.waiting()):
            raise PersonError(f"{person} is not here")
        return self.wishes[person]

    def move(self, floor: int) -> None:
        """Goes to a floor; raises FloorError when there is none."""
        if not 0 <= floor < self.floors:
            raise FloorError(f"there is no floor {floor}")
        self.at = floor

    def enter(self, person: str) -> None:
        """Lets a person on this floor in; raises PersonError when there is no such person, or two are in already."""
        if person not in self.waiting() or len(self.inside) == 2:
            raise PersonError(f"{person} cannot enter")
        self.inside.append(person)
        del self.places[person]

    def leave(self, person: str) -> None:
        """Lets a person out; raises PersonError when no such person is in."""
        if person not in self.inside:
            raise PersonError(f"{person} is not in the lift")
        self.inside.remove(person)
        self.places[person] = self.at

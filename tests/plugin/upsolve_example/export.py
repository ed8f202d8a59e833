"""Write the programs in capitals."""

from upsolve.exports.record import TEXT, Column, Export


def rows(group, _place):
    for attempt in group.attempts:
        yield {"program": attempt.code.upper()}


def columns():
    return (Column("program", TEXT, "the program in capitals"),)


LOUD = Export(rows, columns, unit="attempts", help="one row for each program")

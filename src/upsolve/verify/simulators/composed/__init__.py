"""Tasks for the robot, composed by a grammar: any number of them, from a seed.

names      rooms, people, things, sentences, questions
goals      what a task asks for: its sentence, its plain program, what must be so in a world, and what must happen there
joins      goals from two goals: one after the other, or one of them by what the robot finds
worlds     worlds that a goal needs, and the checks of what must happen in each
programs   other right programs of the plain one, and wrong ones of kinds that people and models write
rehearsal  a program played in this process, for the ones that are written here
source     compositions -> tasks with attempts, split by composition
"""

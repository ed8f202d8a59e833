"""Robot tasks composed by a grammar: any number, reproducible from a seed.

goal       records of goals and worlds; names of rooms, people and things; sentences and questions
goals      single goals (prompt, plain reference program, requirements on worlds, required events), and joins of two goals
worlds     worlds for a goal, the checks of each, and runs of generated programs in this process
programs   correct variants of the plain program
mutations  incorrect variants, with mistakes that people and models make
source     compositions -> tasks with attempts, split by composition
"""

"""Robot tasks composed by a grammar: any number, reproducible from a seed.

names      rooms, people, things, sentences, questions
goals      single goals: prompt, plain reference program, requirements on worlds, required events
joins      combinations of two goals: in sequence, or one of them by a condition
worlds     worlds for a goal, and the checks of each
programs   correct variants of the plain program
mutations  incorrect variants, with mistakes that people and models make
rehearsal  runs generated programs in this process
source     compositions -> tasks with attempts, split by composition
"""

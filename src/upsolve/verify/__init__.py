"""Task + Attempt -> Verdict. Loads neither torch nor pyarrow.

How one attempt is judged (docs/judge.md has the details)::

    Task + Attempt
        |  judge/plans: which runs are needed, and what each may know
        v
      plan --> job --> server --> child                 one process, or
        ^              (warm,      child <--> tester    the attempt's and the trusted one that holds the tests
        |              confined)     |
        |                            v
      verdict <-- outcomes <------ exit                 facts of the kernel, and result lines that are only data

``pool`` runs many of these at once, ``service`` offers them over HTTP, ``attacks`` are tried on all of them by ``doctor``.
"""

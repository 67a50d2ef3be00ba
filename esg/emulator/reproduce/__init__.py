"""The paper's evaluation, claim by claim: ours beside theirs, with a verdict.

`experiments` says which runs are needed and runs them, `overhead` times the search, `claims`
compares with what the paper reports, `study` does one after the other, and `figures` and `html`
make a page of it.
"""

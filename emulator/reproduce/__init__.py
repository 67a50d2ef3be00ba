"""The paper's evaluation, claim by claim: ours beside theirs, with a verdict.

`experiments` says which runs are needed and runs them, `overhead` times the search by the clock,
`claims` compares with what the paper reports, and `html` makes a page of it.
"""

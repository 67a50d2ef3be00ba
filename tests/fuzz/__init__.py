"""Whatever is read from outside gives a value or a refusal with words: never another error, and
never no answer.

In `make test` the same hundred examples for each target, every time; `make fuzz EXAMPLES=10000`
looks for new ones.
"""

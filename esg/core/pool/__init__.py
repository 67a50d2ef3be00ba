"""The pool: the deterministic state machine of a worker node, behind `handle(now_us, event)`."""

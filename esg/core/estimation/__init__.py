"""Estimation: what is learnt from running tasks.

How slow is it really? Three estimates answer that, each a pace: what tasks took over what was
expected of them, in millionths (ppm). They are of three things, for three decisions:

    pace of               beside             how                   for
    a stage               its profile        EWMA of the pace and  the risk that a plan is late
      (`stage_speed`)                        of its spread           (policy `apex`)
    a function, by batch  its profile        median of the latest  the profiles that plans are
      (`drift`)                              32 warm tasks           made with (`corrected`), if
                                                                     the scheduler follows them
    a node                the same stage on  EWMA                  which nodes come last
      (`quarantine`)      all nodes

A stage is an application's, and its pace has all that its requests meet: it moves with every task,
and says how much tasks vary. A function's correction is shared by all applications; it is what
engines are built with, so it must move seldom, and not by accident. A node's pace is beside the
stage's own, not the profile: what slows down all nodes speaks against none.

Nothing counts twice: a stage's pace is forgotten when the profile beside it is corrected
(`stage_speed.forget_pace`).

`transfer` is what inputs take to get to their stage, `ewma` the moving averages themselves.
"""

"""The `esg` command: a table of its sub-commands, each of which is imported when it is used."""

from esg.console.interrupts import ended_at_once

COMMANDS = {
    "apps": (
        "requests.apps_command:app",
        "",
        "Show applications; add, update and remove those of a mesh.",
    ),
    "plan": ("explain.plan:plan", "core", "Find the cheapest configs that keep a deadline."),
    "demo": ("demo.command:demo", "all", "See a whole mesh at work, for a minute."),
    "emulate": (
        "evaluation.emulate:emulate",
        "evaluation",
        "Compare policies on the same requests, in virtual time.",
    ),
    "capacity": (
        "evaluation.capacity:capacity",
        "evaluation",
        "Find the highest rate at which requests are in time.",
    ),
    "size": (
        "evaluation.size:size",
        "evaluation",
        "Find the cheapest cluster for given traffic: GPUs, MIG layouts, vCPUs.",
    ),
    "compare": (
        "evaluation.compare:compare",
        "evaluation",
        "Compare two saved results, side by side.",
    ),
    "replay": (
        "evaluation.history:replay",
        "evaluation",
        "Replay a journal and check that every decision is the same.",
    ),
    "what-if": (
        "evaluation.history:what_if",
        "evaluation",
        "Rerun a journal's requests under other conditions.",
    ),
    "journal": (
        "evaluation.journal:app",
        "evaluation",
        "Check a journal for damage.",
    ),
    "train": (
        "evaluation.training:train",
        "evaluation",
        "Train policy aquatope, for controllers that run it.",
    ),
    "reproduce": (
        "evaluation.reproduce:reproduce",
        "evaluation",
        "Repeat the paper's evaluation: which claims hold?",
    ),
    "up": ("bringup.up:up", "mesh", "Start a whole mesh on this machine."),
    "status": (
        "bringup.status:status",
        "mesh",
        "Show the processes of a mesh that esg up started.",
    ),
    "top": ("requests.top:top", "", "Watch a mesh: its applications, queues, nodes and slices."),
    "logs": ("bringup.logs:logs", "mesh", "Show the logs of a mesh that esg up started."),
    "down": ("bringup.down:down", "mesh", "Stop a mesh, and wait until it has stopped."),
    "submit": ("requests.submit:submit", "", "Run files through an application of a live mesh."),
    "reload": (
        "requests.reload:reload",
        "",
        "Reload a function's handler and model in a live mesh.",
    ),
    "get": ("requests.get:get", "", "Show the state or the result of a request."),
    "cancel": ("requests.get:cancel", "", "Cancel a request, if it has not ended yet."),
    "certificates": (
        "access.certificates:certificates",
        "mesh",
        "Create a private CA, and certificates.",
    ),
    "secrets": (
        "access.secrets:secrets",
        "mesh",
        "Create certificates and tokens for a mesh in a cluster.",
    ),
    "rooms": ("access.rooms:app", "mesh", "Give each container of a mesh its own secrets."),
    "profile": ("profile.command:app", "triton", "Measure functions, or show their profiles."),
    "models": ("bringup.models:app", "triton", "Install a Triton server for slices without a GPU."),
    "tokens": ("access.tokens:app", "mesh", "Manage the clients of a gateway: tokens and quotas."),
}
"""By name: where it is in `esg.cli`, the extra that has all it needs, and a summary."""


def run() -> int:
    with ended_at_once():
        from esg.cli.program import app
        from esg.console.entry import run_app
    return run_app(app, "esg")

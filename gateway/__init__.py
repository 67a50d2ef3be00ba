"""The public door of the mesh: checks what is asked, keeps the limits, stores payloads, waits."""

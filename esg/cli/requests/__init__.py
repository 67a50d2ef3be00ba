"""The clients' commands: submit, get, cancel, apps, top."""

"""Who calls: authentication, and the audit log."""

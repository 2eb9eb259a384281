"""Scripts that measure; each prints what it found and fails when a limit is broken."""

"""SQLite or PostgreSQL: tables, sessions, queries, reports. Everything shown is computed from runs."""

"""SQLite or PostgreSQL: tables, sessions, queries, reports. What is shown is computed from runs."""

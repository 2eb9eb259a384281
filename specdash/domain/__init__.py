"""The method itself, pure: counters, metrics, statistics, plans, arms. No I/O of any kind."""

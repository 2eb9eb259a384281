"""From one baseline to the best draft: predicted by replay, measured, confirmed, ready to use."""

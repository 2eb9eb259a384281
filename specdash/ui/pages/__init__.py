"""Page files: Streamlit runs them as scripts; nothing imports them."""

"""Values and their forms: what is asked and answered, ids, moments, JSON, frames."""

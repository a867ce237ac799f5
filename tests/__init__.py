"""A package, so that no installed one of the same name is imported in its place."""

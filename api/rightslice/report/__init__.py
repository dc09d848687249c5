"""Answers as people and programs read them: documents, tables, CSV. Pure."""

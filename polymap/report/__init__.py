"""Answers for people: texts, figures, pages. Nothing that answers imports from here."""

"""Agents on disk: writing them, and reading them back with every part checked."""

"""Queries to a model: posteriors, imputed tables, explanations, class profiles, joint assignments, samples."""

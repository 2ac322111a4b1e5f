"""What people ask a model: posteriors, completed tables, explanations, class profiles, joint assignments, samples."""

"""What comes after an estimate: standard errors, tests of fit, bootstraps, reports; they see arrays and no networks."""

"""Statistical inference: standard errors, tests of fit, bootstraps, reports; from arrays, without networks."""

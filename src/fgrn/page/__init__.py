"""A page: one HTML file that shows a model and infers in the browser, from a Plan, its Programs and tables."""

"""One HTML file that shows a model and infers in the browser: a Plan, its Programs, tables, and a script for them."""

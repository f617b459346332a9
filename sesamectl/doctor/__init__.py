"""`sesamectl doctor`: one module for each part of the installation that it checks."""

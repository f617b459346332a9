"""The hub: a PostgreSQL that a person names, to which sesame ships, and which it asks. psycopg is imported here only, and late."""

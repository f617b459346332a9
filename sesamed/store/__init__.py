"""The index in SQLite. Only this package knows SQL, and only `sqlite` knows apsw's connections and errors."""

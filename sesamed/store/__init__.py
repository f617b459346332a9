"""The index. Only this package contains SQL, and only it imports apsw."""

"""What changes the index: one transaction for rows and cursors."""

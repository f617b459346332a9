"""What several tests need: builders of sessions, a daemon to talk to. Nothing here tests anything."""

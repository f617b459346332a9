"""`sesamectl setup`: the MCP server and the skill in agents' own settings. What is known about an agent stands in its source."""

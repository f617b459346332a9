"""`sesamectl mcp`: the Model Context Protocol over standard input and output, for agents that have no package of their own. Nothing else
imports it.
"""
